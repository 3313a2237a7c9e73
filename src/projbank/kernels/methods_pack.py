"""Packing: the signs of real numbers against thresholds as bits, eight at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from projbank.kernels.jit import kernel

_i8 = ir.IntType(8)
_v8 = ir.VectorType(ir.FloatType(), 8)


@intrinsic
def _above8(typing: Any, values: Any, thresholds: Any) -> Any:
    """Return a byte: bit k tells whether the k-th of 8 numbers at one address is above that at another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        left, right = (builder.load(builder.inttoptr(at, _v8.as_pointer()), align=4) for at in args)
        return builder.bitcast(builder.fcmp_ordered(">", left, right), _i8)

    return types.uint8(types.intp, types.intp), generate


@intrinsic
def _bad8(typing: Any, values: Any) -> Any:
    """Return a byte: bit k tells whether the k-th of 8 numbers at an address is NaN or infinite (v - v is not 0)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = builder.load(builder.inttoptr(args[0], _v8.as_pointer()), align=4)
        return builder.bitcast(
            builder.fcmp_unordered("!=", builder.fsub(numbers, numbers), ir.Constant(_v8, [0.0] * 8)), _i8
        )

    return types.uint8(types.intp), generate


_ROWS = "Array(float32, 2, 'A', readonly=True)"
_NUMBERS = "Array(float32, 1, 'C', readonly=True)"


@kernel(f"boolean({_ROWS}, {_NUMBERS}, uint8[:, :])")
def pack_above(values, thresholds, codes):
    """codes[i] = packed bits (values[i, p] > thresholds[p]); False if any of the values is NaN or infinite.

    values (n, at least d) float32 with adjacent columns, thresholds (d,), codes (n, ceil(d / 8)).
    """
    n_bits = thresholds.size
    whole = n_bits // 8 * 8
    bad = np.uint8(0)
    thresholds_at = thresholds.ctypes.data
    for i in range(values.shape[0]):
        at = values.ctypes.data + i * values.strides[0]
        for first in range(0, whole, 8):
            codes[i, first >> 3] = _above8(at + 4 * first, thresholds_at + 4 * first)
            bad |= _bad8(at + 4 * first)
        if whole < n_bits:
            byte = np.uint8(0)
            for k in range(n_bits - whole):
                value = values[i, whole + k]
                byte |= np.uint8(value > thresholds[whole + k]) << np.uint8(k)
                bad |= np.uint8(value - value != 0)
            codes[i, whole >> 3] = byte
    return bad == 0


@kernel(f"boolean({_ROWS})")
def all_finite(rows):
    """Whether no number of the rows (n, D), adjacent columns, is NaN or infinite."""
    n_features = rows.shape[1]
    whole = n_features // 8 * 8
    bad = np.uint8(0)
    for i in range(rows.shape[0]):
        at = rows.ctypes.data + i * rows.strides[0]
        for j in range(0, whole, 8):
            bad |= _bad8(at + 4 * j)
        for j in range(whole, n_features):
            bad |= np.uint8(rows[i, j] - rows[i, j] != 0)
    return bad == 0
