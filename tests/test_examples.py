"""The scripts in examples/ run on small data of the right shape."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def main_of(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def of_places(folder, n_rows=340, n_places=20):
    """Vectors around some places, in `x.npy`, and their places in `y.npy`."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, n_places, n_rows)
    X = (rng.standard_normal((n_places, 500))[places] + 0.5 * rng.standard_normal((n_rows, 500))).astype(np.float32)
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", places)
    return [str(folder / "x.npy"), str(folder / "y.npy")]


def test_own_vectors(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "found.png"
    files = of_places(tmp_path, n_places=4)
    main_of("own_vectors")([*files, "--bits", "64", "--queries", "40", "--picture", str(picture)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:-2] for line in lines[1:3]] == [["floats"], ["64", "bits"]]
    assert all(float(line.split()[-1]) > 0.9 for line in lines[1:3])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_paper(tmp_path, capsys):
    main_of("paper")([*of_places(tmp_path, n_places=4), "--methods", "lsh", "bpb"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[0] for line in lines] == ["floats", "lsh", "bpb"]
    assert lines[2][3:] == ["0.376", "0.385"]  # as the paper prints them
    assert all(0.3 < float(value) <= 1 for line in lines for value in line[1:3])


def test_photos(tmp_path, capsys):
    import cv2

    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(30):
        noise = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{i:02}.jpg"), cv2.resize(noise, (160, 120), interpolation=cv2.INTER_CUBIC))
    (folder / "copy.jpg").write_bytes((folder / "07.jpg").read_bytes())
    picture = tmp_path / "found.png"
    main_of("photos")([str(folder), "--like", str(folder / "04.jpg"), "-k", "5", "--picture", str(picture)])
    out = capsys.readouterr().out.splitlines()
    assert out[2].split() == ["1.000", "04.jpg"]
    assert any(line.startswith("same: ") and "copy.jpg" in line and "07.jpg" in line for line in out)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["photos", "cells", "own_vectors", "dask_zarr", "paper", "descriptors", "text"])
def test_examples_are_short(name):
    assert 30 <= len((FOLDER / f"{name}.py").read_text().splitlines()) <= 60


@pytest.mark.parametrize("kind", ["labels", "positions"])
def test_descriptors(kind, tmp_path, capsys):
    of_places(tmp_path)
    X, places = np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy")
    (tmp_path / "gallery").mkdir()
    np.save(tmp_path / "gallery" / "a.npy", X[:200])
    np.save(tmp_path / "gallery" / "b.npy", X[200:300])
    np.save(tmp_path / "queries.npy", X[300:])
    known = places if kind == "labels" else np.stack([places * 100.0, places * 7.0], axis=1)
    np.save(tmp_path / "g.npy", known[:300])
    np.save(tmp_path / "q.npy", known[300:])
    words = [str(tmp_path / name) for name in ("gallery", "queries.npy", "g.npy", "q.npy")]
    main_of("descriptors")([*words, "--bits", "128", "--components", "30"])
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line[:6] for line in lines] == ["floats", "projba", "... fo", "PCA-30", "RaBitQ"]
    assert all(float(line.split()[-3]) > 0.9 for line in lines), lines


def test_dask_zarr(tmp_path, capsys):
    zarr = pytest.importorskip("zarr")
    pytest.importorskip("dask.array")
    X = np.random.default_rng(0).standard_normal((150, 80)).astype(np.float32)
    array = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(40, 80), dtype="f4")
    array[:] = X
    main_of("dask_zarr")([str(tmp_path / "x.zarr"), str(tmp_path / "codes.zarr"), "--bits", "32"])
    from projbank import load

    bank = load(f"{tmp_path}/codes.zarr.bank.safetensors")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "codes.zarr", mode="r")[:], bank.transform(X))
    out = capsys.readouterr().out
    assert "150 codes of 4 bytes, instead of 320" in out
    assert [line.split()[:3] for line in out.splitlines()[-5:]] == [[f"{i}", f"{i}", "(0)"] for i in range(5)]


def test_cells(tmp_path, capsys):
    ad = pytest.importorskip("anndata")
    for name in ("scanpy", "igraph", "umap"):
        pytest.importorskip(name)
    rng = np.random.default_rng(0)
    types = rng.integers(0, 3, 300)
    counts = rng.poisson(rng.gamma(0.3, 4, (3, 400))[types]).astype(np.float32)
    ad.AnnData(counts).write_h5ad(tmp_path / "cells.h5ad")
    words = ["cells.h5ad", "--out", "coded.h5ad", "--picture", "cells.png"]
    main_of("cells")([word if word.startswith("--") else str(tmp_path / word) for word in words])
    coded = ad.read_h5ad(tmp_path / "coded.h5ad")
    own = coded.obs["leiden"].to_numpy()
    assert all(len(set(types[own == one])) == 1 for one in set(own))
    assert coded.obsm["X_projbank"].shape == (300, 64)
    assert (tmp_path / "cells.png").stat().st_size > 5000
    assert "300 cells in" in capsys.readouterr().out
