"""Files that are whole and lie, names that are code elsewhere, arrays that do not fit: refused, and nothing is run."""

import json
from pathlib import Path

import numpy as np
import pytest

from projbank import HammingIndex, ProjectionBank, load
from projbank.models.file import ModelFileError
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
