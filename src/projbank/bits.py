"""Packed bits: bit p of a code stands in byte p // 8 at position p % 8 ("little", as in FAISS)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def code_bytes(n_bits: int) -> int:
    """Bytes of one code of `n_bits` bits."""
    return (n_bits + 7) // 8


def pack(bits: ArrayLike) -> NDArray[np.uint8]:
    """Pack an (n, n_bits) array of truth values into (n, ceil(n_bits / 8)) bytes; padding bits are 0."""
    return np.packbits(np.asarray(bits, dtype=bool), axis=-1, bitorder="little")


def unpack(codes: ArrayLike, n_bits: int) -> NDArray[np.bool_]:
    """Unpack (n, ceil(n_bits / 8)) bytes into an (n, n_bits) array of truth values."""
    return np.unpackbits(check_codes(codes, n_bits), axis=-1, count=n_bits, bitorder="little").astype(bool)


def check_codes(codes: ArrayLike, n_bits: int | None = None, name: str = "codes") -> NDArray[np.uint8]:
    """Return `codes` as a 2-D uint8 array, or raise an error that names the argument and what came.

    A memory-mapped array is not copied. With `n_bits`, the width must be the one of such codes.
    """
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise TypeError(f"{name} must be packed bits of dtype uint8. Got dtype {array.dtype} instead.")
    if array.ndim != 2:
        raise ValueError(f"{name} must be a 2-D array, one code per row. Got {array.ndim}-D, shape {array.shape}.")
    if array.shape[1] == 0:
        raise ValueError(f"{name} must have at least 1 byte per code. Got shape {array.shape}.")
    if n_bits is not None and array.shape[1] != code_bytes(n_bits):
        raise ValueError(
            f"{name} must have {code_bytes(n_bits)} bytes per code, as {n_bits} bits need. Got {array.shape[1]} bytes."
        )
    return array


def clear_padding(codes: NDArray[np.uint8], n_bits: int) -> NDArray[np.uint8]:
    """Codes whose bits past `n_bits` are 0; a copy is made only where a stray bit stands."""
    spare = 8 * codes.shape[1] - n_bits
    if spare == 0:
        return codes
    mask = np.uint8(0xFF >> spare)
    if not np.any(codes[:, -1] & ~mask):
        return codes
    codes = codes.copy()
    codes[:, -1] &= mask
    return codes
