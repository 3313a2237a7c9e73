"""Packing: the signs of real numbers against thresholds as bits, 32 at a time."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from projbank.kernels.jit import kernel
from projbank.kernels.simd import I8, I64, V8, constant, load, pointer


def _odd(builder, vectors):
    """A byte that is not 0 where a number is NaN or infinite: v - v is then not 0."""
    odd = constant(0.0)
    for vector in vectors:
        odd = builder.fadd(odd, builder.fsub(vector, vector))
    return builder.bitcast(builder.fcmp_unordered("!=", odd, constant(0.0)), I8)


@intrinsic
def _above32(typing, values, thresholds, codes):
    """Store 4 bytes: which of 32 numbers are above their thresholds; all arguments are addresses.

    Return a byte that is not 0 where a number is NaN or infinite.
    """

    def generate(context, builder, signature, args):
        values, thresholds, codes = args
        vectors = [load(builder, values, V8, 32 * k) for k in range(4)]
        for k, numbers in enumerate(vectors):
            above = builder.fcmp_ordered(">", numbers, load(builder, thresholds, V8, 32 * k))
            place = pointer(builder, builder.add(codes, I64(k)), I8)
            builder.store(builder.bitcast(above, I8), place, align=1)
        return _odd(builder, vectors)

    return types.uint8(*(types.intp,) * 3), generate


@intrinsic
def _bad32(typing, values):
    """Return a byte that is not 0 where one of the 32 numbers at an address is NaN or infinite."""

    def generate(context, builder, signature, args):
        return _odd(builder, [load(builder, args[0], V8, 32 * k) for k in range(4)])

    return types.uint8(types.intp), generate


_ROWS = "Array(float32, 2, 'A', readonly=True)"
_NUMBERS = "Array(float32, 1, 'C', readonly=True)"


@kernel(f"boolean({_ROWS}, {_NUMBERS}, uint8[:, :])")
def pack_above(values, thresholds, codes):
    """codes[i] = packed bits (values[i, p] > thresholds[p]); False if any of the values is NaN or infinite.

    values (n, at least d) float32, thresholds (d,), codes (n, ceil(d / 8)), the first and last with adjacent columns.
    """
    n_bits = thresholds.size
    whole = n_bits // 32 * 32
    bad = np.uint8(0)
    thresholds_at = thresholds.ctypes.data
    for i in range(values.shape[0]):
        at = values.ctypes.data + i * values.strides[0]
        codes_at = codes.ctypes.data + i * codes.strides[0]
        for first in range(0, whole, 32):
            bad |= _above32(at + 4 * first, thresholds_at + 4 * first, codes_at + (first >> 3))
        for first in range(whole, n_bits, 8):
            byte = np.uint8(0)
            for p in range(first, min(first + 8, n_bits)):
                byte |= np.uint8(values[i, p] > thresholds[p]) << np.uint8(p - first)
                bad |= np.uint8(values[i, p] - values[i, p] != 0)
            codes[i, first >> 3] = byte
    return bad == 0


@kernel(f"boolean({_ROWS})")
def all_finite(rows):
    """Whether no number of the rows (n, D), adjacent columns, is NaN or infinite."""
    n_features = rows.shape[1]
    whole = n_features // 32 * 32
    bad = np.uint8(0)
    for i in range(rows.shape[0]):
        at = rows.ctypes.data + i * rows.strides[0]
        for j in range(0, whole, 32):
            bad |= _bad32(at + 4 * j)
        for j in range(whole, n_features):
            bad |= np.uint8(rows[i, j] - rows[i, j] != 0)
    return bad == 0
