import zipfile
from itertools import pairwise, product

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from projbank.rows.files import open_vectors
from projbank.rows.source import as_rows, check_finite, release_pages, row_blocks
from projbank.rows.views import FoldedRows, ScaledRows


def test_row_blocks_cover_all_rows_in_tiles():
    blocks = row_blocks(1000, 64_000)
    assert blocks[0][0] == 0
    assert blocks[-1][1] == 1000
    assert all(a[1] == b[0] for a, b in pairwise(blocks))
    assert all((stop - start) % 8 == 0 for start, stop in blocks[:-1])
    assert row_blocks(3, 10**9) == [(0, 3)]


def test_blocks_are_copied_only_where_they_must_be():
    X = np.arange(60, dtype=np.float32).reshape(6, 10)
    assert as_rows(X).block(1, 4).base is not None
    assert np.shares_memory(as_rows(X).block(1, 4), X)
    assert np.shares_memory(as_rows(X[::2, 3:7]).block(0, 2), X)
    for other in (X[:, ::2], X.T, X.astype(np.float16), X.astype(np.int32), np.asfortranarray(X)):
        rows = as_rows(other).block(1, 3)
        np.testing.assert_array_equal(rows, np.asarray(other)[1:3])
        assert rows.dtype == np.float32
        assert rows.strides[1] == 4


@pytest.mark.parametrize("kind", [np.asarray, np.float64, sp.csr_array, lambda X: ScaledRows(as_rows(X), np.ones(10))])
def test_take_rows(kind):
    X = np.random.default_rng(0).standard_normal((200, 10)).astype(np.float32)
    ids = np.arange(3, 200, 2)
    out = np.empty((len(ids), 10), np.float32)
    as_rows(kind(X)).take(ids, out)
    np.testing.assert_array_equal(out, X[ids])


def test_many_rows_are_taken_on_any_threads():
    X = np.random.default_rng(0).standard_normal((300, 7001)).astype(np.float32)
    ids = np.arange(1, 300, 2)
    for n_threads in (1, 2, 5):
        out = np.empty((len(ids), 7001), np.float32)
        as_rows(X).take(ids, out, n_threads)
        np.testing.assert_array_equal(out, X[ids])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_scaled_rows(kind):
    X = np.random.default_rng(0).standard_normal((20, 10)).astype(np.float32)
    scale = np.arange(1, 11)
    rows = ScaledRows(as_rows(kind(X)), scale)
    np.testing.assert_array_equal(rows.block(3, 7), X[3:7] / scale.astype(np.float32))
    np.testing.assert_array_equal(rows.block(3, 7, slice(2, 5)), rows.block(3, 7)[:, 2:5])
    assert rows.shape == (20, 10)


@pytest.mark.parametrize("kind", [np.asarray, np.float64, sp.csr_array])
@pytest.mark.parametrize(("most", "times"), [(4, 3), (9, 2), (1, 10), (10, 1), (100, 1)])
def test_folded_rows_are_signed_sums_of_dimensions(kind, most, times):
    X = np.random.default_rng(0).standard_normal((20, 10)).astype(np.float32)
    rows = FoldedRows(as_rows(kind(X)), most)
    m = -(-10 // times)
    assert rows.shape == (20, m)
    folded = rows.block(0, 20)
    for j in range(m):  # each sum is that of dimensions j, j + m, ..., under some signs
        candidates = X[:, j::m] @ np.array(list(product([-1, 1], repeat=X[:, j::m].shape[1]))).T
        assert np.abs(candidates - folded[:, [j]]).max(axis=0).min() < 1e-5
    np.testing.assert_array_equal(rows.block(3, 7, slice(0, m)), folded[3:7])
    np.testing.assert_array_equal(rows.block(3, 7, slice(m // 2, m)), folded[3:7, m // 2 :])
    np.testing.assert_allclose(rows.fold(X.mean(axis=0, dtype=np.float64)), folded.mean(axis=0), atol=1e-6)


def test_folded_rows_keep_inner_products():
    X = np.random.default_rng(1).standard_normal((50, 40_000)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rows = FoldedRows(as_rows(X), 16_384)
    folded = rows.block(0, 50)
    errors = (folded @ folded.T - X @ X.T)[np.triu_indices(50, 1)]
    assert rows.shape[1] == 13_334
    assert np.sqrt(np.mean(errors**2)) < 1.1 / np.sqrt(13_334)
    assert abs(errors.mean()) < 4 / np.sqrt(13_334 * len(errors))


def test_column_statistics():
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((500, 7)) * 10.0 ** np.arange(-3, 4) + 1000).astype(np.float32)
    X[:, 2] = 123.456
    means, deviations = as_rows(X).statistics()
    np.testing.assert_allclose(means, X.mean(axis=0, dtype=np.float64), rtol=1e-7)
    np.testing.assert_allclose(deviations, X.std(axis=0, dtype=np.float64), rtol=1e-3, atol=1e-6)
    assert deviations[2] == 0


def test_columns_whose_squares_would_overflow_are_refused():
    X = np.ones((20, 3), np.float32)
    X[:, 1] = np.linspace(-1e20, 1e20, 20)
    with pytest.raises(ValueError, match="X is too large in column 1: scale it"):
        as_rows(X).statistics()


def test_check_finite_names_the_place():
    X = np.zeros((4, 5), np.float32)
    check_finite(X)
    check_finite(np.full((4, 5), 3e38, np.float32))  # the sum overflows float32, the values do not
    X[2, 3] = np.nan
    with pytest.raises(ValueError, match="queries contains NaN at row 12, column 3"):
        check_finite(X, 10, "queries")


def test_released_pages_can_be_read_again(tmp_path):
    X = np.random.default_rng(2).standard_normal((3000, 50)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    for mode in ("r", "r+", "c"):
        mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
        if mode == "c":
            mapped[5] = 7  # a private change must survive
        for view in (mapped, mapped[100:2000], np.asarray(mapped)[5:6], mapped[::7, 3:]):
            release_pages(view)
        expected = X.copy()
        if mode == "c":
            expected[5] = 7
        np.testing.assert_array_equal(mapped, expected)
    release_pages(X)


def test_every_file_kind(tmp_path):
    X = sp.random_array((9, 12), density=0.5, rng=np.random.default_rng(3), dtype=np.float32).tocsr()
    dense = X.toarray()
    np.save(tmp_path / "a.npy", dense)
    np.savez(tmp_path / "b.npz", x=dense)
    np.savez(tmp_path / "c.npz", x=dense, other=dense + 1, flat=dense[0])
    sp.save_npz(tmp_path / "d.npz", X)
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["deep/x"] = dense
        file["flat"] = dense[0]
    np.save(tmp_path / "f16.npy", dense.astype(np.float16))
    for name, dataset in (("a.npy", None), ("b.npz", None), ("c.npz", "x"), ("d.npz", None), ("e.h5", None)):
        np.testing.assert_array_equal(as_rows(open_vectors(tmp_path / name, dataset)).block(0, 9), dense)
    assert isinstance(open_vectors(tmp_path / "a.npy"), np.memmap)
    assert sp.issparse(open_vectors(tmp_path / "d.npz"))
    assert open_vectors(tmp_path / "f16.npy").dtype == np.float16


def test_files_that_are_not_vectors(tmp_path):
    def saved(name, array):
        np.save(tmp_path / name, array)
        return tmp_path / name

    whole = saved("whole.npy", np.zeros((50, 100), np.float32)).read_bytes()
    np.savez(tmp_path / "two.npz", a=np.zeros((2, 2)), b=np.zeros((2, 2)))
    for name, content in {
        "empty": b"",
        "text": b"hello, this is text",
        "short.npy": whole[:1000],
        "header.npy": whole[:20],
        "broken.npz": (tmp_path / "two.npz").read_bytes()[:60],
        "broken.h5": b"\x89HDF\r\n\x1a\n" + bytes(100),
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    with zipfile.ZipFile(tmp_path / "tensor.pt", "w") as archive:  # as torch.save does
        archive.writestr("tensor/data.pkl", b"\x80\x02")
    with h5py.File(tmp_path / "10x.h5", "w") as file:
        for name in ("data", "indices", "indptr", "shape"):
            file[f"matrix/{name}"] = np.zeros(2)
    cases = {
        tmp_path / "tensor.pt": (ValueError, "holds objects of PyTorch, which are not read"),
        tmp_path / "10x.h5": (ValueError, "'matrix' holds the parts of a sparse matrix, but not its format"),
        tmp_path / "folder": (IsADirectoryError, "is a directory"),
        tmp_path / "missing.npy": (FileNotFoundError, "no such file"),
        tmp_path / "empty": (ValueError, "the file is empty"),
        tmp_path / "text": (ValueError, "not a file of vectors"),
        tmp_path / "short.npy": (ValueError, "damaged or unsupported"),
        tmp_path / "header.npy": (ValueError, "damaged or unsupported"),
        tmp_path / "broken.npz": (ValueError, "damaged .npz"),
        tmp_path / "broken.h5": (ValueError, "damaged HDF5"),
        tmp_path / "two.npz": (ValueError, "name the array of vectors (--dataset): it has a, b"),
        saved("codes.npy", np.zeros((3, 4), np.uint8)): (ValueError, "holds packed codes (dtype uint8), not vectors"),
        saved("flat.npy", np.zeros(5)): (ValueError, "must be a 2-D array"),
        saved("none.npy", np.zeros((0, 5))): (ValueError, "holds no vectors"),
        saved("text.npy", np.array([["a"]])): (ValueError, "Got dtype <U1"),
        saved("complex.npy", np.zeros((2, 2), complex)): (ValueError, "Got dtype complex128"),
        saved("objects.npy", np.array([[None]])): (ValueError, "damaged or unsupported"),
    }
    for path, (error, words) in cases.items():
        with pytest.raises(error) as caught:
            open_vectors(path)
        assert words in str(caught.value)
        assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match="has no array 'c'; it has a, b"):
        open_vectors(tmp_path / "two.npz", "c")
