"""The same numbers give the same bits: in any form, on any threads, in any process, however often."""

import gc
import multiprocessing
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from projbank import HammingIndex, KernelProjectionBank, ProjectionBank, load

OLD = Path(__file__).parent / "data" / "0.1.0"
ROWS = sorted(path.stem for path in OLD.glob("*.safetensors") if path.stem not in ("vlad", "fisher", "extractor"))
INPUTS = np.load(OLD / "inputs.npz")


def forms(X):
    """The numbers of X in every form that arrays come in."""
    spread = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
    spread[::2, ::3] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    return {
        "float64": X.astype(np.float64),
        "Fortran order": np.asfortranarray(X),
        "strided": spread[::2, ::3],
        "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
        "big-endian": X.astype(">f4"),
        "read-only": read_only,
        "csr": sp.csr_array(X),
        "csc": sp.csc_array(X),
        "coo": sp.coo_matrix(X),
        "int64 indices": sp.csr_array((sp.csr_array(X).data, *_wide(sp.csr_array(X))), shape=X.shape),
    }


def _wide(matrix):
    return matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)


@pytest.mark.parametrize("name", ROWS)
def test_every_model_codes_every_form_alike_on_any_threads(name):
    model, X = load(OLD / f"{name}.safetensors"), INPUTS["Q"]
    wanted = model.set_params(n_jobs=1).transform(X)
    for form, rows in forms(X).items():
        np.testing.assert_array_equal(model.transform(rows), wanted, err_msg=form)
    for n_jobs in (2, 3, 4):
        np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).transform(X), wanted)


FEW = {"n_neighbors": 5, "max_iter": 3}
BANKS = {
    "mixed": ProjectionBank(24, solver="mixed", **FEW),
    "joint": ProjectionBank(24, solver="joint", **FEW),
    "paper": ProjectionBank(24, solver="paper", kmeans_iter=3, **FEW),
    "kernel": KernelProjectionBank(8, n_basis=20, kmeans_iter=3, **FEW),
}


@pytest.mark.parametrize("name", BANKS)
def test_learning_gives_the_same_bank_from_every_form_on_any_threads(name):
    X = np.random.default_rng(0).standard_normal((70, 48)).astype(np.float32)
    wanted = BANKS[name].set_params(n_jobs=1).fit(X).identity()
    for form, rows in forms(X).items():
        if not sp.issparse(rows):  # sparse data may be learnt from in another way
            assert BANKS[name].fit(rows).identity() == wanted, form
    for n_jobs in (2, 3, 4):
        assert BANKS[name].set_params(n_jobs=n_jobs).fit(X).identity() == wanted


def in_a_process(path, X):
    """What another process makes of a bank and an index."""
    bank = load(path)
    codes = bank.transform(X)
    distances, ids = HammingIndex(codes, n_bits=bank.n_bits_).search(codes[:3], 4)
    return codes, distances, ids


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_give_the_same(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this system")
    path, X = OLD / "bank-joint-soft.safetensors", INPUTS["Q"]
    wanted = in_a_process(path, X)
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply(in_a_process, (path, X))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_eight_threads_share_a_bank_and_an_index(tmp_path):
    rng = np.random.default_rng(0)
    bank = load(OLD / "bank-joint-soft.safetensors").set_params(n_jobs=2)
    X = rng.standard_normal((300, bank.n_features_in_)).astype(np.float32)
    codes = bank.transform(X)
    index = HammingIndex(codes, n_bits=bank.n_bits_)
    wanted = index.search(codes, 5)

    def work(i):
        rows = np.random.default_rng(i).permutation(300)[:40]
        for _ in range(20):
            np.testing.assert_array_equal(bank.transform(X[rows]), codes[rows])
            distances, ids = index.search(codes[rows], 5, n_jobs=1 + i % 3)
            np.testing.assert_array_equal(distances, wanted[0][rows])
            np.testing.assert_array_equal(ids, wanted[1][rows])
        bank.save(tmp_path / "bank")  # all of them to the same file
        return load(tmp_path / "bank").identity()

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(work, range(8))) == {bank.identity()}
    assert os.listdir(tmp_path) == ["bank"]


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_memory_stays_flat_over_10_000_calls(tmp_path):
    bank = load(OLD / "bank-joint-soft.safetensors").set_params(n_jobs=1)
    bank.save(tmp_path / "bank")
    row = INPUTS["Q"][:1]
    index = HammingIndex(np.repeat(bank.transform(row), 50, axis=0), n_bits=bank.n_bits_)

    def calls(n):
        for i in range(n):
            code = bank.transform(row)
            index.search(code, 3, n_jobs=1)
            if i % 100 == 0:
                load(tmp_path / "bank")
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = calls(1000)
    assert calls(10_000) - before < 4 << 20
