"""Every kind of storage gives the rows that the array gives, whole, by blocks and by ids; one table of them all."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from projbank import ProjectionBank
from projbank.rows.source import as_rows

da = pytest.importorskip("dask.array")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
zarr = pytest.importorskip("zarr")
ad = pytest.importorskip("anndata")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*zarr v2:UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:anndata"),
]

N, D = 211, 130


def lists(X):
    return pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])


def table(X):
    return pa.table({"id": np.arange(len(X)), "vector": lists(X)})


def as_zarr(X, folder):
    array = zarr.create_array(folder / "x.zarr", shape=X.shape, chunks=(37, 50), dtype=X.dtype)
    array[:] = X
    return array


def as_parquet(X, folder):
    pq.write_table(table(X), folder / "x.parquet", row_group_size=70)
    return pq.ParquetFile(folder / "x.parquet")


def as_dataset(X, folder):
    for i in range(3):
        pq.write_table(table(X[100 * i : 100 * i + 100]), folder / f"{i}.parquet")
    return pytest.importorskip("pyarrow.dataset").dataset(sorted(map(str, folder.glob("*.parquet"))))


def backed(X, folder):
    ad.AnnData(X).write_h5ad(folder / "x.h5ad")
    return ad.read_h5ad(folder / "x.h5ad", backed="r")


def stored(X, folder):
    ad.AnnData(sp.csr_matrix(X)).write_h5ad(folder / "x.h5ad")
    return pytest.importorskip("h5py").File(folder / "x.h5ad")


def zarr_group(X, folder):
    ad.AnnData(sp.csr_matrix(X)).write_zarr(folder / "x.zarr")
    return zarr.open_group(folder / "x.zarr", mode="r")


def objects(X):
    out = np.empty(len(X), object)
    out[:] = list(X)
    return out


def as_torch(name):
    def make(X, folder):
        torch = pytest.importorskip("torch")
        return torch.tensor(X, requires_grad=True).to(getattr(torch, name))

    return make


KINDS = {
    "zarr": as_zarr,
    "dask": lambda X, folder: da.from_array(X, chunks=(37, 50)),
    "dask, uneven": lambda X, folder: da.from_array(X, chunks=((1, 0, 110, 100), (D,))),
    "dask of sparse": lambda X, folder: da.from_array(X, chunks=(37, D)).map_blocks(sp.csr_matrix),
    "AnnData": lambda X, folder: ad.AnnData(X),
    "AnnData, sparse": lambda X, folder: ad.AnnData(sp.csr_matrix(X)),
    "AnnData, csc": lambda X, folder: ad.AnnData(sp.csc_matrix(X)),
    "AnnData, backed": backed,
    "AnnData, sparse and backed": lambda X, folder: backed(sp.csr_matrix(X), folder),
    "sparse matrix on disk": lambda X, folder: backed(sp.csr_matrix(X), folder).X,
    "AnnData file opened by h5py": stored,
    "sparse matrix opened by h5py": lambda X, folder: stored(X, folder)["X"],
    "AnnData store opened by zarr": zarr_group,
    "sparse matrix opened by zarr": lambda X, folder: zarr_group(X, folder)["X"],
    "array of arrays": lambda X, folder: objects(X),
    "bfloat16 of ml_dtypes": lambda X, folder: X.astype(pytest.importorskip("ml_dtypes").bfloat16),
    "AnnData, view": lambda X, folder: ad.AnnData(np.vstack([X, X]))[:N],
    "AnnData of Dask": lambda X, folder: ad.AnnData(da.from_array(X, chunks=(37, D))),
    "Arrow table": lambda X, folder: table(X),
    "Arrow table of columns": lambda X, folder: pa.table({str(i): column for i, column in enumerate(X.T)}),
    "Arrow record batch": lambda X, folder: table(X).to_batches()[0],
    "Arrow array": lambda X, folder: lists(X),
    "Arrow array, sliced": lambda X, folder: lists(np.vstack([X, X]))[N:],
    "Arrow lists": lambda X, folder: pa.chunked_array([pa.array(X[:50].tolist()), pa.array(X[50:].tolist())]),
    "Arrow tensors": lambda X, folder: pa.FixedShapeTensorArray.from_numpy_ndarray(X),
    "parquet": as_parquet,
    "parquet, several files": as_dataset,
    "polars frame": lambda X, folder: pl.from_arrow(table(X)),
    "polars series": lambda X, folder: pl.Series(X.tolist(), dtype=pl.List(pl.Float32)),
    "polars frame of columns": lambda X, folder: pl.DataFrame(X),
    "pandas column of arrays": lambda X, folder: pd.DataFrame({"id": "x", "vector": list(X)}),
    "pandas series of lists": lambda X, folder: pd.Series(X.tolist(), index=np.arange(N) + 7),
    "pandas column of Arrow": lambda X, folder: table(X).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas of numbers": lambda X, folder: pd.DataFrame(X),
    "torch float32": as_torch("float32"),
    "torch float64": as_torch("float64"),
    "torch float16": as_torch("float16"),
    "torch bfloat16": as_torch("bfloat16"),
    "torch float8": as_torch("float8_e4m3fn"),
}


@pytest.fixture(scope="module", name="X")
def vectors():
    rng = np.random.default_rng(0)
    return (rng.integers(0, 5, (N, D)) * (rng.random((N, D)) < 0.5)).astype(np.float32)  # exact in every float


@pytest.fixture(scope="module")
def bank(X):
    return ProjectionBank(n_bits=21, n_neighbors=5, max_iter=3).fit(X)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_array(kind, X, tmp_path):
    rows = as_rows(KINDS[kind](X, tmp_path))
    assert rows.shape == (N, D)
    for part in (slice(0, N), slice(0, 1), slice(13, 150), slice(N - 1, N)):
        block = rows.block(part.start, part.stop)
        np.testing.assert_array_equal(block, X[part])
        assert block.dtype == np.float32
        assert block.strides[1] == 4
        np.testing.assert_array_equal(rows.block(part.start, part.stop, slice(5, 9)), X[part, 5:9])
    for ids in ([0], [N - 1], [0, 5, 36, 37, 38, 200, 210], range(N)):
        np.testing.assert_array_equal(rows.read(np.array(ids)), X[ids])
    for rows_per_block in (8, 50, 1000):
        bounds = rows.bounds(4 * D * rows_per_block)
        assert [bounds[0][0], bounds[-1][1]] == [0, N]
        assert all(one[1] == next_one[0] for one, next_one in pairwise(bounds))
        read = [block.copy() for _, block in rows.blocks(4 * D * rows_per_block)]
        np.testing.assert_array_equal(np.concatenate(read), X)


@pytest.mark.parametrize("kind", KINDS)
def test_banks_and_codes_are_those_of_the_array(kind, X, bank, tmp_path):
    given = KINDS[kind](X, tmp_path)
    codes, expected = bank.transform(given), bank.transform(X)
    np.testing.assert_array_equal(np.asarray(codes), expected)
    np.testing.assert_array_equal(np.asarray(bank.decision_function(given)), bank.decision_function(X))
    out = np.empty_like(expected)
    bank.write(given, out)
    np.testing.assert_array_equal(out, expected)
    learnt = ProjectionBank(n_bits=21, n_neighbors=5, max_iter=3).fit(given)
    assert learnt.identity() == bank.identity()


@pytest.mark.parametrize("kind", ["zarr", "dask", "AnnData, sparse and backed", "parquet", "parquet, several files"])
def test_bad_values_are_named_by_their_row_among_all(kind, X, bank, tmp_path):
    spoilt = X.copy()
    spoilt[170, 3] = np.nan
    if "sparse" in kind:
        spoilt = sp.csr_matrix(spoilt)
    with pytest.raises(ValueError, match="X contains NaN at row 170, column 3"):
        np.asarray(bank.transform(KINDS[kind](spoilt, tmp_path)))


def test_blocks_may_be_asked_for_in_any_order(X, tmp_path):
    rows = as_rows(as_parquet(X, tmp_path))
    for start in (100, 40, 60, 80, 200, 0, 20, 200):
        np.testing.assert_array_equal(rows.block(start, min(N, start + 20)), X[start : start + 20])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda X: da.ones((N,)), "must be 2-D"),
        (lambda X: da.from_array(X)[da.from_array(X)[:, 0] > 1], "compute_chunk_sizes"),
        (lambda X: zarr.create_group({}), "Got a zarr group"),
        (lambda X: pa.table({"a": ["x"], "b": [1]}), r"must have a column of lists of numbers.*Got a \(string\)"),
        (lambda X: pa.table({"a": lists(X), "b": lists(X)}), "name the column of vectors: it has a, b"),
        (lambda X: pa.array([1.0, 2.0]), "must hold lists of numbers.*Got a column of double"),
        (lambda X: pa.array([["a"]]), "must hold lists of numbers"),
        (lambda X: pa.array([[1.0, 2.0], [3.0]]), "vectors must have 2 numbers.*Got 1 at row 1"),
        (lambda X: pa.array([[1.0, 2.0], None]), "has no vector at row 1"),
        (lambda X: pl.LazyFrame({"a": [1]}), "collect"),
        (lambda X: pd.Series([[1.0, 2.0], [3.0]]), r"must hold vectors of 2 numbers.*at row 1"),
        (lambda X: pd.Series([[1.0, 2.0], None]), r"must hold vectors of 2 numbers.*Got None at row 1"),
        (lambda X: pd.DataFrame({"a": list(X), "b": list(X)}), "must have one column of vectors; give one: a, b"),
        (lambda X: ad.AnnData(obsm={"X_pca": X}), r"AnnData without X.*obsm\[...\] \(it has X_pca\)"),
        (lambda X: pd.DataFrame({"name": ["a"], "x": [1.0]}), "columns that all are numbers. Got text in 'name'"),
        (lambda X: "x.npy", r"Got a path: open it.*open_vectors\('x.npy'\)"),
        (lambda X: Path("x.npy"), "Got a path: open it"),
        (lambda X: {"a": X, "b": X}, "Got a dict; give one of its values: a, b"),
        (lambda X: iter(X), "must be vectors that can be read more than once"),
        (lambda X: [[1.0, 2.0], [3.0]], "must hold vectors of 2 numbers, as the first. Got 1 at row 1"),
        (lambda X: np.zeros(3, [("a", "f4"), ("b", "f4")]), "Got an array of records; give one of its fields: a, b"),
        (lambda X: zarr.zeros((0, 5)), r"at least 2 row\(s\)"),
    ],
)
def test_what_cannot_be_read_is_told(given, words, X):
    with pytest.raises((ValueError, TypeError), match=words):
        ProjectionBank(n_bits=1, solver="random").fit(given(X))


def test_sparse_columns_on_disk_are_refused(X, tmp_path):
    adata = backed(sp.csc_matrix(X), tmp_path)
    with pytest.raises(ValueError, match=r"csc format, which can't be read row by row.*tocsr"):
        ProjectionBank(n_bits=1).fit(adata)


def test_a_damaged_sparse_matrix_on_disk_is_refused(X, tmp_path):
    import h5py

    backed(sp.csr_matrix(X), tmp_path).file.close()
    with h5py.File(tmp_path / "x.h5ad", "r+") as file:
        file["X/indices"][5] = D
        with pytest.raises(ValueError, match=f"index out of range: {D} is not in"):
            as_rows(ad.io.sparse_dataset(file["X"])).block(0, N)
        file["X/indptr"][3] = 10**6
        with pytest.raises(ValueError, match="row pointers of the sparse matrix are out of range"):
            as_rows(ad.io.sparse_dataset(file["X"]))


def test_codes_of_a_dask_array_are_lazy(X, bank):
    read = []

    def spy(block):
        read.append(len(block))
        return block

    given = da.from_array(X, chunks=(37, 50)).rechunk((37, D)).map_blocks(spy, dtype=X.dtype, meta=X[:0])
    codes = bank.transform(given)
    assert isinstance(codes, da.Array)
    assert read == []
    assert codes.shape == (N, 3)
    assert codes.dtype == np.uint8
    assert codes.chunks == (given.chunks[0], (3,))
    assert isinstance(codes._meta, np.ndarray)
    assert codes._meta.dtype == np.uint8
    np.testing.assert_array_equal(codes[150:].compute(), bank.transform(X[150:]))
    assert sum(read) == N - 148  # the chunks that hold these rows, and no other
    assert bank.transform(given).name == codes.name
    assert bank.decision_function(given).dtype == np.float32
