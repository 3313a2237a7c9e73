"""Safetensors files: what another library reads, and nothing that is damaged or lies about itself."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from projbank.integrity import DamageError
from projbank.tensorfile import DTYPES, read_header, read_tensors, write_tensors

ARRAYS = {
    "one": np.arange(6, dtype=np.float32).reshape(2, 3),
    "none": np.zeros((0, 4), np.int32),
    "bits": np.arange(7, dtype=np.uint8),
    "sums": np.linspace(0, 1, 5),
    "scalar": np.array(-3),
    "truth": np.array([True, False]),
}


def write(path, arrays=ARRAYS, metadata=None):
    path.touch()
    write_tensors(path, arrays, metadata or {"format": "test", "b": "2", "a": "1"})
    return path


def assert_equal(found, wanted):
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape


def test_the_library_reads_what_is_written(tmp_path):
    path = write(tmp_path / "a")
    assert_equal(load_file(path), ARRAYS)
    with safe_open(path, "numpy") as file:
        assert file.metadata().items() >= {"format": "test", "a": "1", "b": "2"}.items()


def test_what_the_library_writes_is_read(tmp_path):
    save_file(ARRAYS, tmp_path / "a", {"format": "test"})
    header, arrays = read_tensors(tmp_path / "a")
    assert header.metadata == {"format": "test"}
    assert_equal(arrays, ARRAYS)


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter("__metadata__".__ne__),
        st.sampled_from(list(DTYPES.values())).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=5), fill=st.nothing())
        ),
        max_size=5,
    )
)
def test_any_arrays_come_back(tmp_path_factory, arrays):
    folder = tmp_path_factory.mktemp("any")
    _, found = read_tensors(write(folder / "a", arrays))
    for name in arrays:
        assert found[name].tobytes() == np.ascontiguousarray(arrays[name]).tobytes()
        assert found[name].flags.aligned
    assert write(folder / "b", dict(reversed(arrays.items()))).read_bytes() == (folder / "a").read_bytes()


def test_other_layouts_are_written_alike(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    wanted = write(tmp_path / "a", {"x": array}).read_bytes()
    for other in (array.copy("F"), array.astype(">f4"), np.tile(array, 2)[:, :4]):
        assert write(tmp_path / "b", {"x": other}).read_bytes() == wanted


def test_every_flipped_bit_of_the_tensors_is_told(tmp_path):
    path = write(tmp_path / "a")
    content = path.read_bytes()
    for place in range(read_header(path).start, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(DamageError, match="checksum"):
            read_tensors(path)


def test_every_truncation_and_addition_is_told(tmp_path):
    path = write(tmp_path / "a")
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(DamageError, match="a: "):
            read_header(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(DamageError, match="instead of"):
        read_header(path)


TENSOR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header",
    [
        {"x": TENSOR | {"shape": [3]}},
        {"x": TENSOR | {"shape": [-2]}},
        {"x": TENSOR | {"shape": [True, 2]}},
        {"x": TENSOR | {"shape": [2.0]}},
        {"x": TENSOR | {"shape": [2**62, 4]}},
        {"x": TENSOR | {"shape": "2"}},
        {"x": TENSOR | {"dtype": "F8"}},
        {"x": TENSOR | {"dtype": ["F32"]}},
        {"x": TENSOR | {"data_offsets": [0, 16]}},
        {"x": TENSOR | {"data_offsets": [4, 12]}},
        {"x": TENSOR | {"data_offsets": [8, 0]}},
        {"x": TENSOR | {"data_offsets": [0]}},
        {"x": TENSOR, "y": TENSOR},
        {"x": {}},
        {"x": []},
        {"x": TENSOR, "__metadata__": {"format": 1}},
        {"x": TENSOR, "__metadata__": []},
        {},
        [],
    ],
)
def test_headers_that_lie(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "a").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(DamageError, match="a: "):
        read_tensors(tmp_path / "a")


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 900_000,
        b'{"a":' * 200_000,
        b'{"x": Infinity}',
        b'{"x": NaN}',
        b'{"x": ' + b"9" * 10_000 + b"}",
        b'{"x": {}, "x": {}}',
        b"\xff" * 20,
        b'"word"',
        b"{}" + b"\0" * 10,
    ],
    ids=str,
)
def test_headers_that_are_no_json(tmp_path, text):
    (tmp_path / "a").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(DamageError, match="a: "):
        read_tensors(tmp_path / "a")


def test_no_room(tmp_path, full_disk):
    (tmp_path / "a").touch()
    with pytest.raises(OSError, match="bytes are needed"), full_disk(100):
        write_tensors(tmp_path / "a", ARRAYS, {})
    with pytest.raises(TypeError, match="'x' can't be saved"):
        write_tensors(tmp_path / "a", {"x": np.array(["word"])}, {})
