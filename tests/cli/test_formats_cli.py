"""The command line reads and writes what other people's tools read and write."""

import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from projbank import HammingIndex, load

ad = pytest.importorskip("anndata")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
zarr = pytest.importorskip("zarr")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*zarr v2:UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:anndata"),
]
N, D = 120, 200


@pytest.fixture(name="counts")
def cells():
    rng = np.random.default_rng(0)
    centers = rng.gamma(0.5, 1.0, (4, D))
    return rng.poisson(centers[rng.integers(0, 4, N)] * rng.gamma(2, 1, (N, 1))).astype(np.float32)


@pytest.fixture
def adata(counts):
    return ad.AnnData(sp.csr_matrix(counts), layers={"scaled": counts / 2}, obsm={"X_other": counts[:, :50] + 1})


@pytest.fixture
def run(projbank):
    """Run a command, and give its exit code and all that it said."""

    def call(*words):
        code, out, err = projbank(*words)
        return code, out + err

    return call


@pytest.fixture
def fit(run):
    return lambda source, output, *words: run(
        "fit", source, "-b", "32", "-o", output, "-k", "5", "--set", "max_iter=3", *words
    )


@pytest.mark.parametrize("kind", [".h5ad", ".zarr"])
@pytest.mark.parametrize("dense", [False, True])
def test_cells_to_coded_cells(kind, dense, adata, counts, tmp_path, run, fit):
    path, coded = tmp_path / f"cells{kind}", tmp_path / f"coded{kind}"
    adata.X = counts if dense else adata.X
    getattr(adata, "write_h5ad" if kind == ".h5ad" else "write_zarr")(path)
    bank = tmp_path / "bank.safetensors"
    code, said = fit(path, bank, "--normalize", "log1p")
    assert (code, "raw counts" in said) == (0, False), said
    code, said = run("encode", bank, path, "-o", coded, "--obsm", "X_projbank", "--normalize", "log1p")
    assert code == 0, said
    read = (ad.read_h5ad if kind == ".h5ad" else ad.read_zarr)(coded)
    normalized = np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(read.obsm["X_projbank"], load(bank).transform(normalized))
    np.testing.assert_array_equal(read.obsm["X_other"], adata.obsm["X_other"])
    np.testing.assert_array_equal(read.X.toarray() if sp.issparse(read.X) else read.X, counts)
    codes, index = tmp_path / "codes.npy", tmp_path / "index.pbi"
    assert run("encode", bank, path, "-o", codes, "--normalize", "log1p")[0] == 0
    np.testing.assert_array_equal(np.load(codes), read.obsm["X_projbank"])
    assert run("index", codes, "-o", index)[0] == 0
    words = ["--bank", bank, "--row", 7, "-k", 3, "--normalize", "log1p", "--format", "csv"]
    code, said = run("search", index, path, *words)
    assert code == 0, said
    nearest = HammingIndex(np.load(codes)).search(np.load(codes)[7:8], k=3)[1][0]
    assert [int(line.split(",")[2]) for line in said.split()[1:]] == nearest.tolist()


def test_layers_and_other_arrays(adata, counts, tmp_path, run, fit):
    adata.write_h5ad(tmp_path / "cells.h5ad")
    for words, X in ((["--layer", "scaled"], counts / 2), (["--from-obsm", "X_other"], counts[:, :50] + 1)):
        bank = tmp_path / "bank.safetensors"
        assert fit(tmp_path / "cells.h5ad", bank, *words)[0] == 0
        assert run("encode", bank, tmp_path / "cells.h5ad", "-o", tmp_path / "codes.npy", *words)[0] == 0
        np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), load(bank).transform(X))


def test_what_goes_wrong_with_cells_is_told(adata, tmp_path, run, fit):
    path, bank, out = tmp_path / "cells.h5ad", tmp_path / "bank.safetensors", tmp_path / "codes.npy"
    adata.write_h5ad(path)
    code, said = fit(path, bank)
    assert code == 0
    assert "raw counts" in said
    assert "--normalize log1p" in said
    other = adata[:, ::-1].copy()
    other.write_h5ad(tmp_path / "other.h5ad")
    columns = ad.AnnData(sp.csc_matrix(adata.X))
    columns.write_h5ad(tmp_path / "columns.h5ad")
    ad.AnnData(obs=adata.obs).write_h5ad(tmp_path / "none.h5ad")
    np.save(tmp_path / "x.npy", np.ones((4, D), np.float32))
    for words, told in {
        (path, "--layer", "missing"): "has no layers/missing; it has X, layers/scaled, obsm/X_other",
        (path, "--layer", "scaled", "--from-obsm", "X_other"): "exclude each other",
        (path, "--normalize", "log1p"): "fitted to",
        (tmp_path / "other.h5ad",): "same genes in the same order",
        (tmp_path / "columns.h5ad",): "csc format",
        (tmp_path / "none.h5ad",): "has no X; it has no matrix",
        (tmp_path / "x.npy", "--layer", "scaled"): "--layer is for AnnData files",
        (path, "--dataset", "missing"): "has no array 'missing'; it has X, X/data",
        (path, "--id-column", "id"): "--id-column is for codes in a .parquet file",
    }.items():
        code, said = run("encode", bank, *words, "-o", out)
        assert (code, told in said) == (2, True), (words, said)
        assert not out.exists()
    for output, words in (("coded.h5ad", []), ("codes.npy", ["--obsm", "X_new"])):
        code, said = run("encode", bank, path, "-o", tmp_path / output, *words)
        assert (code, "--obsm" in said) == (2, True)
    before = path.read_bytes()
    assert run("encode", bank, path, "-o", path, "--obsm", "X_new")[0] == 2
    assert path.read_bytes() == before


def test_a_sparse_matrix_of_any_hdf5_file_has_a_name(adata, tmp_path, run, fit):
    adata.write_h5ad(tmp_path / "cells.h5ad")
    shutil.copy(tmp_path / "cells.h5ad", tmp_path / "renamed.bin")
    bank, out = tmp_path / "bank.safetensors", tmp_path / "codes.npy"
    assert fit(tmp_path / "renamed.bin", bank, "--dataset", "X")[0] == 0
    assert run("encode", bank, tmp_path / "renamed.bin", "--dataset", "X", "-o", out)[0] == 0
    np.testing.assert_array_equal(np.load(out), load(bank).transform(adata.X))


def test_columns_of_parquet_with_their_ids(counts, tmp_path, run, fit):
    duckdb, pd = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(counts.reshape(-1)), D)
    table = pa.table({"name": [f"cell {i}" for i in range(N)], "v": vectors, "w": vectors})
    pq.write_table(table, tmp_path / "v.parquet", row_group_size=50)
    bank, out = tmp_path / "bank.safetensors", tmp_path / "codes.parquet"
    code, said = fit(tmp_path / "v.parquet", bank)
    assert (code, "name the column of vectors: it has v, w" in said) == (2, True)
    assert fit(tmp_path / "v.parquet", bank, "--dataset", "v")[0] == 0
    words = ["--dataset", "v", "--id-column", "name"]
    code, said = run("encode", bank, tmp_path / "v.parquet", "-o", out, *words)
    assert code == 0, said
    expected = load(bank).transform(counts)
    column = pq.read_schema(out).field("code")
    assert str(column.type) == "fixed_size_binary[4]"
    found = duckdb.sql(f"select name, code from '{out}' where name = 'cell 77'").fetchall()
    assert found == [("cell 77", expected[77].tobytes())]
    frame = pd.read_parquet(out)
    assert frame["name"].tolist() == table["name"].to_pylist()
    np.testing.assert_array_equal(np.frombuffer(b"".join(frame["code"]), np.uint8).reshape(N, 4), expected)
    assert run("encode", bank, tmp_path / "v.parquet", "-o", out, "--dataset", "v", "--margins")[0] == 0
    frame = pd.read_parquet(out)
    assert frame["id"].tolist() == list(range(N))
    np.testing.assert_array_equal(np.stack(frame["code"]), load(bank).decision_function(counts))
    code, said = run("encode", bank, tmp_path / "v.parquet", "-o", out, "--dataset", "v", "--id-column", "x")
    assert (code, "has no column 'x'; it has name, v, w" in said) == (2, True)
    assert pq.read_table(out).num_rows == N


def test_codes_to_a_zarr_store(counts, tmp_path, run, fit):
    array = zarr.create_array(tmp_path / "v.zarr", shape=counts.shape, chunks=(30, D), dtype="f4")
    array[:] = counts
    bank, out = tmp_path / "bank.safetensors", tmp_path / "codes.zarr"
    assert fit(tmp_path / "v.zarr", bank)[0] == 0
    assert run("encode", bank, tmp_path / "v.zarr", "-o", out)[0] == 0
    np.testing.assert_array_equal(zarr.open_array(out, mode="r")[:], load(bank).transform(counts))
    code, said = run("encode", bank, tmp_path / "v.zarr", "-o", out)
    assert (code, "there is such a folder" in said) == (2, True)
    assert run("encode", bank, tmp_path / "v.zarr", "-o", out, "--force", "--margins")[0] == 0
    assert zarr.open_array(out, mode="r").dtype == np.float32
    code, said = run("encode", bank, tmp_path / "v.zarr", "-o", tmp_path / "v.zarr", "--force")
    assert (code, "it is the input" in said) == (2, True)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "v.zarr", mode="r")[:], counts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank.safetensors", "codes.zarr", "v.zarr"]


def test_a_folder_of_files_is_read_as_one(counts, tmp_path, run, fit):
    folder = tmp_path / "parts"
    folder.mkdir()
    np.save(folder / "a.npy", counts[:50])
    np.savez(folder / "b.npz", counts[50:70])
    pq.write_table(pa.table({"v": counts[70:].tolist()}), folder / "c.parquet")
    bank, out = tmp_path / "bank.safetensors", tmp_path / "codes.npy"
    assert fit(folder, bank)[0] == 0
    assert run("encode", bank, folder, "-o", out)[0] == 0
    np.testing.assert_array_equal(np.load(out), load(bank).transform(counts))
    np.savez(tmp_path / "one.npz", counts)
    shutil.move(tmp_path / "one.npz", tmp_path / "one.zip")
    assert run("encode", bank, tmp_path / "one.zip", "-o", out)[0] == 0
    np.testing.assert_array_equal(np.load(out), load(bank).transform(counts))
