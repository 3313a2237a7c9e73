"""Checksums and identities: the same content has the same, other content another."""

import warnings

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from projbank import integrity
from projbank.integrity import IdentityError, check_made_by, checksum, checksum_blocks, identity


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_a_checksum_is_that_of_the_bytes_one_after_another(parts):
    wanted = xxhash.xxh3_64(b"".join(parts)).hexdigest()
    arrays = [np.frombuffer(part, np.uint8) for part in parts]
    assert checksum(*parts) == checksum(*arrays) == checksum_blocks(parts) == checksum_blocks(iter(arrays)) == wanted


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<i8", "u1", "?"])
def test_an_identity_is_that_of_the_numbers(dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    wanted = identity("A", {"a": array, "b": array})
    assert identity("A", {"b": array.copy("F"), "a": np.tile(array, 2)[:, :4]}) == wanted
    assert identity("A", {"a": array.astype(array.dtype.newbyteorder()), "b": array}) == wanted
    assert wanted.startswith("A:")
    others = [
        identity("B", {"a": array, "b": array}),
        identity("A", {"a": array, "c": array}),
        identity("A", {"a": array.T, "b": array}),
        identity("A", {"a": array, "b": array}, {"degree": 2}),
        identity("A", {"a": 1 - array.astype("i2"), "b": array}),
        identity("A", {"a": array[:0], "b": array}),
    ]
    assert len({wanted, *others}) == 7


def test_what_does_not_belong_together_is_named():
    check_made_by("index.pbi", "A:1", "bank", "A:1", "mend it")
    with pytest.raises(IdentityError, match=r"index\.pbi: was made by A:1, but bank is A:2; mend it\."):
        check_made_by("index.pbi", "A:1", "bank", "A:2", "mend it")


def test_what_carries_no_identity_is_said_once(monkeypatch):
    monkeypatch.setattr(integrity, "_warned", set())
    with pytest.warns(UserWarning, match="codes.npy: carries no note"):
        check_made_by("codes.npy", None, "bank", "A:2", "mend it")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_made_by("other.npy", None, "bank", "A:2", "mend it")
