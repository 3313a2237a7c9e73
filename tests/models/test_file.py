"""Model files: what is written can be read, nothing else can, and an old file stays readable."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from projbank import ModelFileError, ProjectionBank, load
from projbank.models.file import read_metadata

OLD = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def bank():
    X = np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32)
    return ProjectionBank(7, solver="paper", grouping="contiguous", n_neighbors=3, max_iter=2).fit(X)


@pytest.mark.parametrize("name", ["bank-v1", "bank-v2-soft"])
def test_files_of_every_version_are_read(name):
    """Written when the version was new; see tests/data/README.md. They must load for ever."""
    bank = load(OLD / f"{name}.safetensors")
    X = np.arange(60, dtype=np.float32).reshape(2, 30) % 7 - 3
    assert bank.n_bits_ == 7
    assert bank.get_params()["solver"] == "paper"
    expected = json.loads((OLD / f"{name}.json").read_text())
    np.testing.assert_array_equal(bank.transform(X), expected["codes"])
    np.testing.assert_allclose(bank.decision_function(X), expected["margins"], rtol=1e-6)


def test_metadata(bank, tmp_path):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    metadata = read_metadata(path)
    assert metadata["class"] == "ProjectionBank"
    assert metadata["version"] == 3
    assert metadata["params"]["n_bits"] == 7
    assert os.listdir(tmp_path) == ["bank.safetensors"]


def test_every_truncation_is_told(bank, tmp_path):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    content = path.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"bank\.safetensors: "):
            load(path)


def test_flipped_header_bytes_never_give_another_error(bank, tmp_path):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    refused = 0
    for place in range(0, header, 3):
        broken = content.copy()
        broken[place] ^= 0x15
        path.write_bytes(broken)
        try:
            load(path)
        except ModelFileError:
            refused += 1
    assert refused > header // 3 // 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "not one of projbank"),
        ({"version": "99"}, "written by a newer projbank (file version 99)"),
        ({"version": "x"}, "damaged metadata"),
        ({"class": "Evil"}, "unknown model class 'Evil'"),
        ({"params": "{"}, "damaged metadata"),
        ({"params": "[]"}, "damaged metadata"),
        ({"params": '{"magic": 1}'}, "damaged model file"),
    ],
)
def test_foreign_metadata(bank, tmp_path, change, words):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    metadata = {"format": "projbank", "version": "1", "class": "ProjectionBank", "params": "{}"}
    save_file(load_file(path), path, metadata | change)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("labels_", None, "lacks the arrays labels_"),
        ("labels_", np.full(30, 7, np.int32), "groups that do not exist"),
        ("labels_", np.full(30, -1, np.int32), "groups that do not exist"),
        ("labels_", np.zeros(29, np.int32), "do not fit each other"),
        ("weights_", np.zeros(30, np.float64), "wrong types"),
        ("biases_", np.zeros((7, 1), np.float32), "do not fit each other"),
    ],
)
def test_arrays_that_do_not_fit(bank, tmp_path, name, array, words):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    tensors = load_file(path)
    tensors.pop(name)
    if array is not None:
        tensors[name] = array
    metadata = {"format": "projbank", "version": "1", "class": "ProjectionBank", "params": '{"solver": "joint"}'}
    save_file(tensors, path, metadata)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    assert words in str(caught.value)


def test_other_files(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "foreign.safetensors")
    np.save(tmp_path / "x.npy", np.zeros((3, 3)))
    for name in ("foreign.safetensors", "x.npy"):
        with pytest.raises(ModelFileError, match=name):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        load(tmp_path)


def test_a_failed_save_leaves_the_old_file(bank, tmp_path, full_disk):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    content = path.read_bytes()
    with pytest.raises(OSError, match=r"bank\.safetensors: .* bytes are needed"), full_disk(500):
        bank.save(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["bank.safetensors"]


def test_the_same_bank_gives_the_same_bytes(bank, tmp_path):
    for name in ("a", "b"):
        bank.save(tmp_path / name)
    load(tmp_path / "a").save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_every_flipped_bit_of_a_model_is_told(bank, tmp_path):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    content = path.read_bytes()
    wanted = load(path).identity()
    for place in range(len(content)):
        broken = bytearray(content)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        try:
            assert load(path).identity() == wanted  # white space between the header and the tensors
        except ModelFileError:
            continue
        assert content[place] == ord(" ")


@pytest.mark.parametrize("name", ["weights_", "biases_"])
def test_weights_are_numbers(bank, tmp_path, name):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    tensors = load_file(path)
    tensors[name][-1] = np.nan
    save_file(
        tensors,
        path,
        {"format": "projbank", "version": "2", "class": "ProjectionBank", "params": '{"solver": "paper"}'},
    )
    with pytest.raises(ModelFileError, match=f"{name} holds NaN"):
        load(path)


def test_a_new_file_without_its_checksum_is_refused(bank, tmp_path):
    path = tmp_path / "bank.safetensors"
    bank.save(path)
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    del metadata["checksum"]
    save_file(load_file(path), path, metadata)
    with pytest.raises(ModelFileError, match="no checksum"):
        load(path)


def test_identity_tells_banks_apart(bank, tmp_path):
    bank.save(tmp_path / "bank")
    assert load(tmp_path / "bank").identity() == bank.identity()
    assert bank.identity().startswith("ProjectionBank:")
    X = np.random.default_rng(1).standard_normal((20, 30)).astype(np.float32)
    assert bank.identity() != ProjectionBank(**bank.get_params()).fit(X).identity()
    with pytest.raises(ValueError, match="not fitted"):
        ProjectionBank().identity()


def test_what_a_model_was_trained_on_stays_with_it(bank, tmp_path):
    assert not hasattr(bank, "trained_on_")
    bank.trained_on_ = "FeatureExtractor:00"
    try:
        bank.save(tmp_path / "bank")
    finally:
        del bank.trained_on_
    assert load(tmp_path / "bank").trained_on_ == "FeatureExtractor:00"


def test_an_unfitted_bank_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        ProjectionBank().save(tmp_path / "x")
    assert not os.listdir(tmp_path)
