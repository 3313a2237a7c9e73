"""Files that are whole and lie, names that are code elsewhere, arrays that do not fit: refused, and nothing is run."""

import json
from pathlib import Path

import numpy as np
import pytest

from projbank import HammingIndex, ProjectionBank, load
from projbank.models.file import ModelFileError
from projbank.rows.files import open_vectors
from projbank.search import IndexFileError
from projbank.search.file import write_index
from projbank.tensorfile import read_tensors, write_tensors

OLD = Path(__file__).parent / "data" / "0.1.0"
LARGE = 2**62


def forged(folder, name, change):
    """A model file of which arrays and parameters were changed and signed anew."""
    load(OLD / f"{name}.safetensors").save(folder / "model")
    header, arrays = read_tensors(folder / "model")
    params = json.loads(header.metadata["params"])
    change(arrays, params)
    write_tensors(folder / "model", arrays, header.metadata | {"params": json.dumps(params)})
    return folder / "model"


def put(name, place, value):
    def change(arrays, params):
        arrays[name] = arrays[name].copy()
        arrays[name].reshape(-1)[place] = value

    return change


@pytest.mark.filterwarnings("ignore:.*without a checksum")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kbpb-rbf", put("indptr_", slice(1, 3), [LARGE, -LARGE])),  # differences that wrap around
        ("kbpb-rbf", put("columns_", 0, 30)),
        ("kbpb-rbf", put("columns_", 0, -1)),
        ("kbpb-rbf", put("coefficients_", 0, np.nan)),
        ("kbpb-poly", lambda arrays, params: params.update(degree=10**9)),
        ("srht+sign", put("chosen_", 0, 64)),
        ("srht+sign", put("chosen_", 0, -1)),
        ("rabitq", put("chosen_", 0, 10**9)),
        ("pka", put("labels_", 0, 7)),
        ("pka", put("labels_", 0, -(2**31))),
        ("kmeans+itq", put("group_bits_", 0, 2**32)),
        ("kmeans+itq", put("labels_", 0, 1)),
        ("bank-joint-soft", put("weights_", 0, np.inf)),
    ],
)
def test_models_that_lie_are_refused(tmp_path, name, change):
    path = forged(tmp_path, name, change)
    with pytest.raises((ModelFileError, ValueError)) as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "n_bits", "words"),
    [([0, 1, 1], 20, "distinct"), ([0, -1, 2], 20, "negative"), ([0, 1, 2], 33, "fit"), ([0, 1], 20, "fit")],
)
def test_indexes_that_lie_are_refused(tmp_path, ids, n_bits, words):
    tensors = {"ids": np.array(ids, np.int64), "codes": np.zeros((3, 3), np.uint8)}
    write_index(tmp_path / "i.pbi", n_bits, 3, tensors, {})
    with pytest.raises(IndexFileError, match=words):
        HammingIndex.load(tmp_path / "i.pbi")


@pytest.fixture(scope="module")
def bank():
    return ProjectionBank(20, solver="random").fit(np.random.default_rng(0).standard_normal((30, 32)))


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.empty((30, 2), np.uint8), ValueError),
        (np.empty((29, 3), np.uint8), ValueError),
        (np.empty((30, 3), np.int8), ValueError),
        (np.empty((30, 3), np.float64), ValueError),
        (np.empty((30, 3, 1), np.uint8), ValueError),
        (np.empty((30, 3), np.uint8, order="F"), ValueError),
        (np.empty((30, 6), np.uint8)[:, ::2], ValueError),
        (np.broadcast_to(np.uint8(0), (30, 3)), TypeError),
        (bytearray(90), TypeError),
    ],
)
def test_codes_go_into_arrays_that_fit_only(bank, out, error):
    with pytest.raises(error, match="'out' array must be"):
        bank.write(np.zeros((30, 32), np.float32), out)


@pytest.mark.parametrize("form", ["zarr", "HDF5"])
def test_shapes_that_lie_do_not_run_for_ever(tmp_path, form):
    """Chunks that are missing count as zeros: a small file may claim any number of them."""
    shape = (2**32, 30)
    if form == "zarr":
        zarr = pytest.importorskip("zarr")
        zarr.create_array(tmp_path / "x", shape=shape, chunks=(20, 30), dtype="f4")[:20] = 1
    else:
        with pytest.importorskip("h5py").File(tmp_path / "x", "w") as file:
            file.create_dataset("X", shape, "f4", chunks=(20, 30))[:20] = 1
    with pytest.raises(ValueError, match="would grow from"):
        open_vectors(tmp_path / "x")


def test_a_heap_without_end_is_told(tmp_path):
    """HDF5's library would look for the end of its texts for ever."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("X", data=np.ones((4, 8), np.float32)).attrs["text"] = "a text of any length"
    content = bytearray((tmp_path / "x.h5").read_bytes())
    heap = content.index(b"GCOL") + 16
    content[heap : heap + 16] = bytes(16)
    (tmp_path / "x.h5").write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged HDF5 file \(a heap without end\)"):
        open_vectors(tmp_path / "x.h5")


def test_a_chunk_that_lies_to_blosc_is_told(tmp_path):
    """Blosc would read beyond its end."""
    ad, scipy = pytest.importorskip("anndata"), pytest.importorskip("scipy.sparse")
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "x", mode="w", zarr_format=2)
    ad.io.write_elem(group, "X", scipy.csr_matrix(np.eye(40, 30, dtype=np.float32)))
    chunks = [path for path in (tmp_path / "x" / "X").rglob("0") if path.read_bytes()[:1] == b"\2"]
    assert chunks
    assert open_vectors(tmp_path / "x").shape == (40, 30)
    for path in chunks:
        content = path.read_bytes()
        path.write_bytes(content[:12] + b"\xff\xff\xff\x7f" + content[16:])
        with pytest.raises(ValueError, match="damaged"):
            open_vectors(tmp_path / "x").block(0, 40)
        path.write_bytes(content)
