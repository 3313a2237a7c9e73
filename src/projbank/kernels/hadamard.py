"""The Walsh-Hadamard transform: 64 numbers in registers first, then eight strides at a time over a row in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from projbank.kernels.jit import kernel
from projbank.kernels.simd import I64, V8, load, store, transpose8


def _butterflies(builder, vectors):
    """Hadamard transform across 2, 4 or 8 vectors, lane by lane."""
    half = 1
    while half < len(vectors):
        result = list(vectors)
        for k in range(len(vectors)):
            if k & half == 0:
                result[k] = builder.fadd(vectors[k], vectors[k + half])
                result[k + half] = builder.fsub(vectors[k], vectors[k + half])
        vectors, half = result, 2 * half
    return vectors


@intrinsic
def _first64(typing, x, signs, out):
    """Out = Hadamard transform of x * signs for 64 neighbouring numbers; all arguments are addresses."""

    def generate(context, builder, signature, args):
        x, signs, out = args
        vectors = [builder.fmul(*(load(builder, at, V8, 32 * k) for at in (x, signs))) for k in range(8)]
        vectors = _butterflies(builder, vectors)  # strides 8, 16, 32
        vectors = _butterflies(builder, transpose8(builder, vectors))  # strides 1, 2, 4
        for k, vector in enumerate(transpose8(builder, vectors)):
            store(builder, vector, builder.add(out, I64(32 * k)))
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 3), generate


def _across(n_vectors: int) -> Any:
    @intrinsic
    def across(typing, address, stride):
        """Transform across so many vectors of 8 numbers that stand `stride` bytes apart, in place."""

        def generate(context, builder, signature, args):
            places = [builder.add(args[0], builder.mul(args[1], I64(k))) for k in range(n_vectors)]
            vectors = [load(builder, place, V8) for place in places]
            for vector, place in zip(_butterflies(builder, vectors), places, strict=True):
                store(builder, vector, place)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp), generate

    return across


_across2, _across4, _across8 = _across(2), _across(4), _across(8)


@njit
def _transform_row(X, i, signs, row):
    """Row = Hadamard transform of (X[i] * signs, zeros); the size of `row` is a power of 2, at least 64."""
    n_features, size = X.shape[1], row.size
    x_at, signs_at, row_at = X.ctypes.data + i * X.strides[0], signs.ctypes.data, row.ctypes.data
    whole = n_features // 64 * 64
    for j in range(0, whole, 64):
        _first64(x_at + 4 * j, signs_at + 4 * j, row_at + 4 * j)
    if whole < size:
        row[whole:] = 0
    if whole < n_features:
        padded, ones = np.zeros(64, np.float32), np.ones(64, np.float32)
        for j in range(whole, n_features):
            padded[j - whole] = X[i, j] * signs[j]
        _first64(padded.ctypes.data, ones.ctypes.data, row_at + 4 * whole)
    half = 64
    while 8 * half <= size:
        for block in range(0, size, 8 * half):
            for j in range(block, block + half, 8):
                _across8(row_at + 4 * j, 4 * half)
        half *= 8
    if 4 * half == size:
        for j in range(0, half, 8):
            _across4(row_at + 4 * j, 4 * half)
    elif 2 * half == size:
        for j in range(0, half, 8):
            _across2(row_at + 4 * j, 4 * half)


_ROWS = "Array(float32, 2, 'A', readonly=True)"
_NUMBERS = "Array(float32, 1, 'C', readonly=True)"


@kernel(f"void({_ROWS}, {_NUMBERS}, Array(int64, 1, 'C', readonly=True), int64, float32[:, ::1])")
def hadamard_sample(X, signs, chosen, size, out):
    """out[i, p] = coefficient chosen[p] of H (signs * X[i], 0 ... 0), H the unscaled Hadamard matrix in natural order.

    X (n, D) float32 with adjacent columns, signs (D,), padded to `size`, a power of 2 from D and 64 on. The transform
    lives in one row that stays in the cache.
    """
    row = np.empty(size, np.float32)
    for i in range(X.shape[0]):
        _transform_row(X, i, signs, row)
        for p in range(chosen.size):
            out[i, p] = row[chosen[p]]
