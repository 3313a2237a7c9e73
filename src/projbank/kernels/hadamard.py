"""The Walsh-Hadamard transform: 64 numbers in registers first, then eight strides at a time over a row in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from projbank.kernels.jit import kernel

_i32, _i64 = ir.IntType(32), ir.IntType(64)
_v8 = ir.VectorType(ir.FloatType(), 8)


def _place(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _v8.as_pointer())


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_i32, 8), order))


def _transpose8(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose an 8 x 8 block that is held in 8 vectors: pairs, then fours, then halves."""
    low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    pairs = [_shuffle(builder, rows[k], rows[k + 1], order) for k in range(0, 8, 2) for order in (low, high)]
    even, odd = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
    fours = [_shuffle(builder, pairs[k], pairs[k + 2], order) for k in (0, 1, 4, 5) for order in (even, odd)]
    first, second = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
    return [_shuffle(builder, fours[k], fours[k + 4], order) for order in (first, second) for k in range(4)]


def _butterflies(builder: Any, vectors: list[Any]) -> list[Any]:
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
def _first64(typing: Any, x: Any, signs: Any, out: Any) -> Any:
    """Out = Hadamard transform of x * signs for 64 neighbouring numbers; all arguments are addresses."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, signs, out = args
        vectors = []
        for k in range(8):
            step = _i64(32 * k)
            number = builder.load(_place(builder, builder.add(x, step)), align=4)
            sign = builder.load(_place(builder, builder.add(signs, step)), align=4)
            vectors.append(builder.fmul(number, sign))
        vectors = _butterflies(builder, vectors)  # strides 8, 16, 32
        vectors = _butterflies(builder, _transpose8(builder, vectors))  # strides 1, 2, 4
        for k, vector in enumerate(_transpose8(builder, vectors)):
            builder.store(vector, _place(builder, builder.add(out, _i64(32 * k))), align=4)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 3), generate


def _across(n_vectors: int) -> Any:
    @intrinsic
    def across(typing: Any, address: Any, stride: Any) -> Any:
        """Transform across so many vectors of 8 numbers that stand `stride` bytes apart, in place."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            places = [_place(builder, builder.add(args[0], builder.mul(args[1], _i64(k)))) for k in range(n_vectors)]
            vectors = [builder.load(place, align=4) for place in places]
            for vector, place in zip(_butterflies(builder, vectors), places, strict=True):
                builder.store(vector, place, align=4)
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


@kernel(f"void({_ROWS}, {_NUMBERS}, float32[:, ::1])")
def hadamard_rows(X, signs, out):
    """out[i] = H (signs * X[i], 0 ... 0), H the unscaled Hadamard matrix in natural order.

    X (n, D) float32 with adjacent columns, signs (D,), out (n, P) with P >= D a power of 2 and at least 64.
    """
    for i in range(X.shape[0]):
        _transform_row(X, i, signs, out[i])


@kernel(f"void({_ROWS}, {_NUMBERS}, Array(int64, 1, 'C', readonly=True), int64, float32[:, ::1])")
def hadamard_sample(X, signs, chosen, size, out):
    """out[i, p] = coefficient chosen[p] of the transform of X[i], padded to `size` (see `hadamard_rows`).

    The transform lives in one row that stays in the cache.
    """
    row = np.empty(size, np.float32)
    for i in range(X.shape[0]):
        _transform_row(X, i, signs, row)
        for p in range(chosen.size):
            out[i, p] = row[chosen[p]]
