"""Index files: mapped into memory, readable by safetensors, and refused with a reason when damaged."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from projbank.search import HammingIndex, IndexFileError, verify_index
from projbank.search.file import COMMIT_PLACE


@pytest.fixture
def index():
    rng = np.random.default_rng(0)
    return HammingIndex(rng.integers(0, 256, (20, 3), dtype=np.uint8), ids=rng.permutation(100)[:20], n_bits=22)


@pytest.fixture
def path(tmp_path, index):
    index.save(tmp_path / "index.pbi")
    return tmp_path / "index.pbi"


def test_round_trip(path, index):
    again = HammingIndex.load(path)
    assert (again.n_bits, len(again)) == (22, 20)
    for found, expected in zip(again.search(index.codes, 5), index.search(index.codes, 5), strict=True):
        np.testing.assert_array_equal(found, expected)


VERSION_1 = (
    b"\xf8"
    + bytes(7)
    + b'{"__metadata__": {"format": "projbank-index", "version": "1", "n_bits": "11", "next_id": "31"}, '
    b'"ids": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}, '
    b'"codes": {"dtype": "U8", "shape": [2, 2], "data_offsets": [16, 20]}}'
    b"                    \x1e" + bytes(7) + b"\x04" + bytes(7) + b"\x05\x01\xff\x00"
)


def test_a_file_of_version_1_stays_readable(tmp_path):
    path = tmp_path / "old.pbi"
    path.write_bytes(VERSION_1)
    index = HammingIndex.load(path)
    assert (index.n_bits, index.ids.tolist(), index.codes.tolist()) == (11, [30, 4], [[5, 1], [255, 0]])
    index.add(np.ones((1, 2), np.uint8)).save()
    again = HammingIndex.load(path)
    assert (again.ids.tolist(), again.codes.tolist()) == ([30, 4, 31], [[5, 1], [255, 0], [1, 1]])


def test_a_file_larger_than_memory_is_opened(tmp_path):
    """A sparse file of 1 TB: only mapping opens it."""
    n, width = 10**9, 1000
    (tmp_path / "huge.pbi").write_bytes(VERSION_1[:-20])

    def grow(header):
        header["__metadata__"]["n_bits"] = "8000"
        header["ids"].update(shape=[n], data_offsets=[0, 8 * n])
        header["codes"].update(shape=[n, width], data_offsets=[8 * n, (8 + width) * n])

    rewrite_header(tmp_path / "huge.pbi", grow)
    try:
        os.truncate(tmp_path / "huge.pbi", (tmp_path / "huge.pbi").stat().st_size + (8 + width) * n)
    except OSError as error:
        pytest.skip(f"no sparse files here: {error}")
    index = HammingIndex.load(tmp_path / "huge.pbi")
    assert len(index) == n
    assert not index.codes[-1].any()


def test_load_maps_the_file(path):
    again = HammingIndex.load(path)
    base = again.codes
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_safetensors_reads_the_file(path, index):
    arrays = load_file(path)
    np.testing.assert_array_equal(arrays["codes"], index.codes)
    np.testing.assert_array_equal(arrays["ids"], index.ids)


def test_a_loaded_index_can_change_and_replace_its_own_file(path, index):
    again = HammingIndex.load(path)
    again.remove(index.ids[:5]).add(index.codes[:2], ids=[1000, 1001])
    again.save(path)
    HammingIndex.load(path).save(path)
    third = HammingIndex.load(path)
    assert third.ids.tolist() == [*index.ids[5:].tolist(), 1000, 1001]
    np.testing.assert_array_equal(third.codes, np.concatenate([index.codes[5:], index.codes[:2]]))


def test_empty_index(tmp_path):
    HammingIndex(n_bits=9).save(tmp_path / "empty.pbi")
    again = HammingIndex.load(tmp_path / "empty.pbi")
    assert (len(again), again.n_bits) == (0, 9)
    assert len(again.add(np.zeros((1, 2), np.uint8))) == 1


@pytest.mark.parametrize("size", [0, 5, 8, 40, 300, -1])
def test_every_truncation_is_told(path, size):
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    with pytest.raises(IndexFileError, match="cut short"):
        HammingIndex.load(path)


def test_trailing_bytes_are_told(path):
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(IndexFileError, match="bytes instead of"):
        HammingIndex.load(path)


def rewrite_header(path, change):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def piece(shape, start):
    """Header of bytes."""
    return {"dtype": "U8", "shape": shape, "data_offsets": [start, start + int(np.prod(shape))]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["__metadata__"].update(version="3"), "newer projbank"),
        (lambda h: h["__metadata__"].update(version="2"), "damaged header"),
        (lambda h: h["__metadata__"].update(version="x"), "damaged metadata"),
        (lambda h: h["__metadata__"].update(n_bits="30"), "damaged header"),
        (lambda h: h["__metadata__"].pop("next_id"), "damaged metadata"),
        (lambda h: h["__metadata__"].update(format="other"), "not an index of projbank"),
        (lambda h: h["codes"].update(shape=[3, 2]), "damaged header"),
        (lambda h: h["ids"].update(shape=[-2]), "damaged header"),
        (lambda h: h["ids"].update(shape=["a"]), "damaged header"),
        (lambda h: h["ids"].update(data_offsets=[8, 24]), "damaged header"),
        (lambda h: h.pop("codes"), "damaged"),
        (
            lambda h: h.update(ids=piece([2], 0), codes=piece([2, 2], 2), more=piece([14], 6)),
            "ids and codes do not fit",
        ),
    ],
)
def test_a_changed_header_of_version_1_is_told(tmp_path, change, message):
    path = tmp_path / "old.pbi"
    path.write_bytes(VERSION_1)
    rewrite_header(path, change)
    with pytest.raises(IndexFileError, match=message):
        HammingIndex.load(path)


@pytest.mark.parametrize(
    "content", [b"\x10" + bytes(7) + b"not json at all!", b"\x02" + bytes(7) + b"[]", b"\xff" * 100]
)
def test_foreign_bytes(path, content):
    path.write_bytes(content)
    with pytest.raises(IndexFileError, match="not an index file"):
        HammingIndex.load(path)


def test_other_safetensors_files_and_missing_ones(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(IndexFileError, match="not an index of projbank"):
        HammingIndex.load(tmp_path / "other.safetensors")
    with pytest.raises(FileNotFoundError, match="no such file"):
        HammingIndex.load(tmp_path / "none.pbi")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        HammingIndex.load(tmp_path)


def test_every_changed_byte_is_told(path):
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    length = 8 + int.from_bytes(whole[:8], "little")
    for place in [*range(length), *rng.integers(length, len(whole), 60).tolist()]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        try:
            index = HammingIndex.load(path)
        except IndexFileError:
            continue
        assert COMMIT_PLACE <= place < COMMIT_PLACE + 64  # one slot is enough
        np.testing.assert_array_equal(index.codes, np.frombuffer(whole[-60:], np.uint8).reshape(20, 3))


def test_large_tensors_are_verified_on_request(path, monkeypatch):
    monkeypatch.setattr("projbank.search.file.CHECKED_BYTES", 10)
    verify_index(path)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert len(HammingIndex.load(path)) == 20
    with pytest.raises(IndexFileError, match="codes do not agree"):
        verify_index(path)


def test_a_failed_save_keeps_the_old_file(path, index):
    before = path.read_bytes()
    with pytest.raises(IsADirectoryError):
        index.save(path.parent)
    (path.parent / "picture.png").write_bytes(b"\x89PNG\r\n")
    with pytest.raises(FileExistsError, match="picture"):
        index.save(path.parent / "picture.png")
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["index.pbi", "picture.png"]
