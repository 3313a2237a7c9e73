"""Storage in chunks is read chunk by chunk: once to learn, and never more than memory can take."""

import numpy as np
import pytest

from projbank import ProjectionBank
from projbank.rows.source import as_rows
from projbank.rows.spool import SpooledRows

N, D = 700, 40


@pytest.fixture(scope="module", name="X")
def vectors():
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


@pytest.mark.parametrize(
    "params",
    [
        {"train_size": 300, "max_iter": 2},
        {"max_iter": 2},
        {"preserve": "distances", "train_size": 300},
        {"solver": "joint", "max_iter": 2},
        {"solver": "paper", "max_iter": 2},
    ],
    ids=str,
)
def test_fit_computes_every_block_of_a_dask_array_once(params, X):
    da = pytest.importorskip("dask.array")
    computed = []

    def spy(block, block_info=None):
        computed.append(block_info[0]["chunk-location"])
        return block

    given = da.from_array(X, chunks=(64, D)).map_blocks(spy, dtype=X.dtype, meta=X[:0])
    learnt = ProjectionBank(16, n_neighbors=5, **params).fit(given)
    assert sorted(computed) == [(i, 0) for i in range(-(-N // 64))]
    assert learnt.identity() == ProjectionBank(16, n_neighbors=5, **params).fit(X).identity()


@pytest.mark.parametrize("chunk", [(64, D), (1, D), (N, 3), (100, 7)])
def test_fit_reads_every_chunk_of_a_file_once(chunk, X, tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    from projbank.rows.hdf5 import Hdf5Rows

    read = np.zeros(N, int)
    block = Hdf5Rows.block

    def spy(self, start, stop, *columns):
        read[start:stop] += 1
        return block(self, start, stop, *columns)

    monkeypatch.setattr(Hdf5Rows, "block", spy)
    params = {"n_neighbors": 5, "max_iter": 2, "train_size": 300}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=chunk, compression="gzip")
        learnt = ProjectionBank(16, **params).fit(file["x"])
    assert read.max() == 1
    assert learnt.identity() == ProjectionBank(16, **params).fit(X).identity()


def test_blocks_of_an_hdf5_file_are_whole_chunks(X, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        rows = as_rows(file.create_dataset("x", data=X, chunks=(60, 8)))
        inner = [start for start, _ in rows.bounds(4 * D * 130)]
        assert inner == list(range(0, N, 120))
        tall = as_rows(file.create_dataset("tall", data=X, chunks=(N, 1)))
        assert max(stop - start for start, stop in tall.bounds(4 * D * 20)) <= 8 * 20  # the chunk is 35 such blocks
        np.testing.assert_array_equal(tall.read(np.arange(3, N, 5)), X[3::5])


def test_kept_rows_and_others_are_told_apart(X):
    ids = np.arange(0, N, 3)
    rows = SpooledRows(as_rows(X), ids)
    np.testing.assert_array_equal(rows.read(ids), X[ids])
    np.testing.assert_array_equal(rows.read(np.arange(N)), X)
    np.testing.assert_array_equal(rows.block(3, 4), X[3:4])
    np.testing.assert_array_equal(rows.block(3, 90, slice(2, 9)), X[3:90, 2:9])


def test_no_room_for_the_rows_to_learn_from_is_told(X, monkeypatch):
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10, 0, 10))
    with pytest.raises(OSError, match=r"learning keeps 112,000 bytes of rows in .*where 10 are free; set TMPDIR"):
        SpooledRows(as_rows(X), np.arange(N))
