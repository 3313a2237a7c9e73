"""`.npy` files with a note: NumPy reads them, damage is told, and so is what is no array of numbers."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from projbank.integrity import DamageError, add_note, create_npy, open_npy, read_note


@pytest.fixture
def noted(tmp_path):
    path = tmp_path / "codes.npy"
    np.save(path, np.arange(15, dtype=np.uint8).reshape(5, 3))
    add_note(path, kind="codes", made_by="Bank:1", n_bits=20, nothing=None)
    return path


def test_numpy_and_tail_read_a_noted_file(noted):
    np.testing.assert_array_equal(np.load(noted), np.arange(15).reshape(5, 3))
    np.testing.assert_array_equal(np.load(noted, mmap_mode="r"), np.arange(15).reshape(5, 3))
    assert noted.read_bytes().split(b"\n")[-2].startswith(b"projbank {")


def test_a_note_comes_back(noted):
    array, note = open_npy(noted)
    np.testing.assert_array_equal(array, np.arange(15).reshape(5, 3))
    assert note == read_note(noted)
    assert {name: note[name] for name in note if name != "checksum"} == {
        "kind": "codes",
        "made_by": "Bank:1",
        "n_bits": 20,
    }


def test_a_second_note_replaces_the_first(noted):
    add_note(noted, kind="codes", made_by="Bank:2")
    size = noted.stat().st_size
    add_note(noted, kind="codes", made_by="Bank:3")
    assert noted.stat().st_size == size
    assert read_note(noted)["made_by"] == "Bank:3"


def test_every_flipped_bit_is_told(noted):
    content = noted.read_bytes()
    for place in range(len(content)):
        noted.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises((DamageError, ValueError), match="damaged"):
            open_npy(noted)


def test_a_truncation_is_told_or_leaves_the_numbers(noted):
    content = noted.read_bytes()
    for length in range(len(content)):
        noted.write_bytes(content[:length])
        try:
            array, note = open_npy(noted)
        except DamageError:
            continue
        assert note is None
        np.testing.assert_array_equal(array, np.arange(15).reshape(5, 3))


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        st.sampled_from(["<f4", ">f4", "<f8", "<f2", "<i8", ">i4", "u1", "?"]),
        hnp.array_shapes(min_side=0, max_side=5),
        fill=st.nothing(),
    ),
    st.booleans(),
)
def test_any_array_comes_back(tmp_path_factory, array, fortran):
    path = tmp_path_factory.mktemp("any") / "a.npy"
    np.save(path, np.asfortranarray(array) if fortran else array)
    add_note(path, kind="vectors")
    found, note = open_npy(path)
    assert note["kind"] == "vectors"
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()


def saved(array, **kwargs):
    file = io.BytesIO()
    np.save(file, array, **kwargs)
    return file.getvalue()


def with_header(text):
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


@pytest.mark.parametrize(
    "content",
    [
        saved(np.array([{}], dtype=object), allow_pickle=True),
        saved(np.zeros(3, [("a", "f4"), ("b", "i4")])),
        saved(np.array(["2020-01-01"], "M8[D]")),
        with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }"),
        with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4), }"),
        with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 0), }"),
        with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
        with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (17,), }"),
        with_header(b"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"),
        with_header(b"{'descr': '<f4', 'shape': (2,), }"),
        with_header(b"__import__('os')"),
        with_header(b"(" * 100),
        b"\x93NUMPY\x01\x00\xff\xff" + b"[" * 65535,
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x09\x00\x10\x00",
        b"PK\x03\x04",
        b"",
    ],
    ids=range(17),
)
def test_what_is_no_array_of_numbers(tmp_path, content):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(DamageError, match=r"a\.npy: "):
        open_npy(path)


def test_bytes_behind_the_numbers(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(saved(np.arange(3)) + saved(np.arange(4)))
    np.testing.assert_array_equal(open_npy(path)[0], np.arange(3))
    path.write_bytes(saved(np.arange(3)) + b"more")
    with pytest.raises(DamageError, match="no note of projbank"):
        open_npy(path)


def test_other_files_have_no_note(tmp_path):
    (tmp_path / "text").write_text("words")
    assert read_note(tmp_path / "text") is None
    np.save(tmp_path / "plain.npy", np.arange(3))
    assert read_note(tmp_path / "plain.npy") is None
    assert open_npy(tmp_path / "plain.npy")[1] is None


def test_a_map_to_write_has_its_room(tmp_path, full_disk):
    path = tmp_path / "a.npy"
    array = create_npy(path, (1000, 7), np.uint8)
    array[:] = 3
    array.flush()
    assert path.stat().st_blocks * 512 >= 7000
    np.testing.assert_array_equal(np.load(path), np.full((1000, 7), 3))
    with pytest.raises(OSError, match=r"b\.npy: .* bytes are needed"), full_disk(5000):
        create_npy(tmp_path / "b.npy", (1000, 7), np.uint8)
