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


@pytest.mark.parametrize("kind", ["labels", "positions"])
def test_descriptors(kind, tmp_path, capsys):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 20, 340)
    X = (rng.standard_normal((20, 500))[places] + 0.5 * rng.standard_normal((340, 500))).astype(np.float32)
    (tmp_path / "gallery").mkdir()
    np.save(tmp_path / "gallery" / "a.npy", X[:200])
    np.save(tmp_path / "gallery" / "b.npy", X[200:300])
    np.save(tmp_path / "queries.npy", X[300:])
    known = places if kind == "labels" else np.stack([places * 100.0, places * 7.0], axis=1)
    np.save(tmp_path / "g.npy", known[:300])
    np.save(tmp_path / "q.npy", known[300:])
    words = [tmp_path / "gallery", tmp_path / "queries.npy"]
    words += ["--gallery-places", tmp_path / "g.npy", "--query-places", tmp_path / "q.npy"]
    main_of("descriptors")([str(word) for word in [*words, "--bits", "128", "--components", "30"]])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == 4
    assert all(float(line[34:42]) > 0.9 for line in lines), lines


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
    assert "150 codes of 4 bytes" in capsys.readouterr().out
