"""Coding: margins and packed codes in one pass over the vectors, and the transposed product that learning needs.

Rows are read in tiles of 8: an 8 x 8 block of X is transposed in registers, so that one vector operation adds one
dimension of 8 vectors to its group. Remainder rows and single queries take a scalar path. Both add the dimensions of
a group in ascending order without fused operations, so they give the same bits as the naive loop.

In a soft bank every dimension serves r groups: labels and weights then hold r numbers per dimension, dimension after
dimension, (r D,), and a block of X is read and transposed once for all r.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from projbank.kernels.jit import kernel
from projbank.kernels.simd import F32, I8, I32, I64, V8, load, pointer, spread, transpose8

TILE = 8
"""Rows that are coded together."""

_PREFETCH_BYTES = 512


def _load_rows(builder, address, row_bytes):
    """Load 8 neighbouring columns of 8 rows and prefetch what the rows hold further on."""
    prefetch = builder.module.declare_intrinsic(
        "llvm.prefetch",
        [I8.as_pointer()],
        ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32]),
    )
    rows = []
    for _ in range(TILE):
        rows.append(load(builder, address, V8))
        ahead = pointer(builder, builder.add(address, I64(_PREFETCH_BYTES)), I8)
        builder.call(prefetch, [ahead, I32(0), I32(3), I32(1)])
        address = builder.add(address, row_bytes)
    return rows


def _load_group(builder, labels, offset, sums):
    """Pointer to the 8 numbers that belong to the group whose label stands `offset` bytes behind `labels`."""
    label = load(builder, builder.add(labels, offset), I32)
    return pointer(builder, builder.add(sums, builder.shl(builder.zext(label, I64), I64(5))), V8)


def _add_column(builder, column, labels, weights, offset, sums):
    """Add one column, times its weight, to the 8 numbers of its group."""
    weight = spread(builder, load(builder, builder.add(weights, offset), F32))
    place = _load_group(builder, labels, offset, sums)
    builder.store(builder.fadd(builder.load(place, align=4), builder.fmul(weight, column)), place, align=4)


def _adder(times: int) -> Any:
    """Intrinsic that adds 8 columns of 8 rows to `times` groups each, unrolled."""

    @intrinsic
    def add_columns(typing, x, row_bytes, labels, weights, sums):
        """sums[labels[e], :] += weights[e] * X[:, e // times] for 8 columns of 8 rows; all arguments are addresses."""

        def generate(context, builder, signature, args):
            x, row_bytes, labels, weights, sums = args
            for k, column in enumerate(transpose8(builder, _load_rows(builder, x, row_bytes))):
                for e in range(times * k, times * (k + 1)):
                    _add_column(builder, column, labels, weights, I64(4 * e), sums)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 5), generate

    return add_columns


_add_columns, _add_columns_2, _add_columns_3, _add_columns_4 = (_adder(times) for times in (1, 2, 3, 4))


@intrinsic
def _add_columns_often(typing, x, row_bytes, labels, weights, sums, times):
    """The same for any number of groups per column."""

    def generate(context, builder, signature, args):
        x, row_bytes, labels, weights, sums, times = args
        column_bytes = builder.shl(times, I64(2))
        for k, column in enumerate(transpose8(builder, _load_rows(builder, x, row_bytes))):
            first = builder.mul(column_bytes, I64(k))
            with cgutils.for_range(builder, times) as loop:
                offset = builder.add(first, builder.shl(loop.index, I64(2)))
                _add_column(builder, column, labels, weights, offset, sums)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 6), generate


@intrinsic
def _dot_columns(typing, x, row_bytes, labels, slopes, out):
    """out[k] += sum over 8 rows i of X[i, k] * slopes[labels[k], i] for 8 columns k; all arguments are addresses."""

    def generate(context, builder, signature, args):
        x, row_bytes, labels, slopes, out = args
        rows = _load_rows(builder, x, row_bytes)
        groups = [builder.load(_load_group(builder, labels, I64(4 * k), slopes), align=4) for k in range(8)]
        products = [builder.fmul(row, slope) for row, slope in zip(rows, transpose8(builder, groups), strict=True)]
        while len(products) > 1:  # a fixed tree
            products = [builder.fadd(products[k], products[k + 1]) for k in range(0, len(products), 2)]
        place = pointer(builder, out, V8)
        builder.store(builder.fadd(builder.load(place, align=4), products[0]), place, align=4)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 5), generate


@intrinsic
def _above(typing, sums, bias):
    """Return 16 bits: which of the 8 numbers at the address `sums` are above `bias`, then which are NaN or infinite."""

    def generate(context, builder, signature, args):
        numbers = load(builder, args[0], V8)
        difference = builder.fsub(numbers, numbers)  # NaN for NaN and infinity
        masks = (
            builder.fcmp_ordered(">", numbers, spread(builder, args[1])),
            builder.fcmp_unordered("uno", difference, difference),
        )
        above, bad = (builder.zext(builder.bitcast(mask, I8), I64) for mask in masks)
        return builder.or_(above, builder.shl(bad, I64(8)))

    return types.uint64(types.intp, types.float32), generate


@njit
def _transpose_bits(x):
    """Transpose an 8 x 8 block of bits held in 64 bits (Hacker's Delight, section 7-3)."""
    t = (x ^ (x >> np.uint64(7))) & np.uint64(0x00AA00AA00AA00AA)
    x ^= t ^ (t << np.uint64(7))
    t = (x ^ (x >> np.uint64(14))) & np.uint64(0x0000CCCC0000CCCC)
    x ^= t ^ (t << np.uint64(14))
    t = (x ^ (x >> np.uint64(28))) & np.uint64(0x00000000F0F0F0F0)
    return x ^ t ^ (t << np.uint64(28))


@njit
def _tile_memory(n_bits):
    """(n_bits, 8) float32 at the start of a cache line, so that no group's 8 numbers lie across two lines."""
    buffer = np.empty(8 * n_bits + 16, np.float32)
    start = -buffer.ctypes.data % 64 // 4
    return buffer[start : start + 8 * n_bits].reshape(n_bits, 8)


@njit
def _sum_tile(X, i, labels, weights, sums):
    """sums[p, s] = sum over the dimensions j of group p of w_jp * X[i + s, j], for 8 rows s."""
    n_features = X.shape[1]
    n_assign = labels.size // n_features
    sums[:] = 0
    x, stride = X.ctypes.data + i * X.strides[0], X.strides[0]
    labels_at, weights_at, sums_at = labels.ctypes.data, weights.ctypes.data, sums.ctypes.data
    whole = n_features // 8 * 8
    if n_assign == 1:
        for j in range(0, whole, 8):
            _add_columns(x + 4 * j, stride, labels_at + 4 * j, weights_at + 4 * j, sums_at)
    elif n_assign == 2:
        for j in range(0, whole, 8):
            _add_columns_2(x + 4 * j, stride, labels_at + 8 * j, weights_at + 8 * j, sums_at)
    elif n_assign == 3:
        for j in range(0, whole, 8):
            _add_columns_3(x + 4 * j, stride, labels_at + 12 * j, weights_at + 12 * j, sums_at)
    elif n_assign == 4:
        for j in range(0, whole, 8):
            _add_columns_4(x + 4 * j, stride, labels_at + 16 * j, weights_at + 16 * j, sums_at)
    else:
        for j in range(0, whole, 8):
            at = 4 * n_assign * j
            _add_columns_often(x + 4 * j, stride, labels_at + at, weights_at + at, sums_at, n_assign)
    for e in range(whole * n_assign, labels.size):
        for s in range(8):
            sums[labels[e], s] += weights[e] * X[i + s, e // n_assign]


@njit
def _sum_row(X, i, labels, weights, sums):
    """sums[p] = sum over the dimensions j of group p of w_jp * X[i, j]."""
    n_features = X.shape[1]
    n_assign = labels.size // n_features
    sums[:] = 0
    if n_assign == 1:
        for j in range(n_features):
            sums[labels[j]] += weights[j] * X[i, j]
    elif n_assign == 2:
        for j in range(n_features):
            sums[labels[2 * j]] += weights[2 * j] * X[i, j]
            sums[labels[2 * j + 1]] += weights[2 * j + 1] * X[i, j]
    else:
        for j in range(n_features):
            x = X[i, j]
            if x != 0:  # what is left out would add 0
                for e in range(j * n_assign, (j + 1) * n_assign):
                    sums[labels[e]] += weights[e] * x


@njit
def _tiled_rows(X, labels):
    """Rows to be coded in tiles: all whole tiles, or none where most numbers are 0 and every other one is used often.

    Judged by the first row. Both ways give the same bits: a number that is 0 adds 0.
    """
    n_rows, n_features = X.shape
    if n_rows >= 8 and labels.size > 2 * n_features:
        used = 0
        for j in range(n_features):
            used += X[0, j] != 0
        if 8 * used < n_features:
            return 0
    return n_rows // 8 * 8


@njit
def _all_finite(numbers):
    """Whether a contiguous array has no NaN or infinity: those have the largest exponents (integers vectorise)."""
    flat = numbers.reshape(-1).view(np.int32)
    largest = np.int32(0)
    for i in range(flat.size):
        largest = max(largest, flat[i] & np.int32(0x7FFFFFFF))
    return largest < np.int32(0x7F800000)


@njit
def _pack_tile(sums, biases, codes, i):
    """Bits sums[p, s] > biases[p] of 8 rows s into codes[i + s]; returns whether all sums are finite."""
    n_bits = biases.size
    byte = np.uint64(255)
    bad = np.uint64(0)
    at = sums.ctypes.data
    whole = n_bits // 8 * 8
    for first in range(0, n_bits, 8):
        block = np.uint64(0)
        if first < whole:  # a constant bound, so that the loop is unrolled
            for k in range(8):
                masks = _above(at + 32 * (first + k), biases[first + k])
                block |= (masks & byte) << np.uint64(8 * k)
                bad |= masks
        else:
            for k in range(n_bits - first):
                masks = _above(at + 32 * (first + k), biases[first + k])
                block |= (masks & byte) << np.uint64(8 * k)
                bad |= masks
        block = _transpose_bits(block)
        for s in range(8):
            codes[i + s, first >> 3] = np.uint8((block >> np.uint64(8 * s)) & byte)
    return bad <= byte


@njit
def _pack_row(sums, biases, code):
    """Bits sums[p] > biases[p] of one row into `code`."""
    n_bits = biases.size
    for first in range(0, n_bits, 8):
        byte = np.uint64(0)
        for k in range(min(8, n_bits - first)):
            byte |= np.uint64(sums[first + k] > biases[first + k]) << np.uint64(k)
        code[first >> 3] = np.uint8(byte)


_ROWS = "Array(float32, 2, 'A', readonly=True)"
_LABELS = "Array(uint32, 1, 'C', readonly=True)"
_NUMBERS = "Array(float32, 1, 'C', readonly=True)"


@kernel(f"boolean({_ROWS}, {_LABELS}, {_NUMBERS}, {_NUMBERS}, uint8[:, ::1])")
def code_rows(X, labels, weights, biases, codes):
    """codes[i] = packed bits (sum over j in group p of w_j x_ij > b_p); False if any sum is NaN or infinite.

    X (n, D) float32 with adjacent columns, labels (D,) or (r D,) uint32, weights as labels, biases (d,), codes
    (n, ceil(d / 8)).
    """
    n_rows = X.shape[0]
    finite = True
    tiled = _tiled_rows(X, labels)
    if tiled:
        sums = _tile_memory(biases.size)
        for i in range(0, tiled, 8):
            _sum_tile(X, i, labels, weights, sums)
            finite &= _pack_tile(sums, biases, codes, i)
    if tiled < n_rows:
        row_sums = np.empty(biases.size, np.float32)
        for i in range(tiled, n_rows):
            _sum_row(X, i, labels, weights, row_sums)
            _pack_row(row_sums, biases, codes[i])
            finite &= _all_finite(row_sums)
    return finite


@kernel(f"boolean({_ROWS}, {_LABELS}, {_NUMBERS}, {_NUMBERS}, float32[:, ::1])")
def margin_rows(X, labels, weights, biases, margins):
    """margins[i, p] = sum over j in group p of w_j x_ij - b_p; shapes and return value as `code_rows`."""
    n_rows, n_bits = X.shape[0], biases.size
    finite = True
    tiled = _tiled_rows(X, labels)
    if tiled:
        sums = _tile_memory(n_bits)
        for i in range(0, tiled, 8):
            _sum_tile(X, i, labels, weights, sums)
            finite &= _all_finite(sums)
            for s in range(8):
                for p in range(n_bits):
                    margins[i + s, p] = sums[p, s] - biases[p]
    for i in range(tiled, n_rows):
        _sum_row(X, i, labels, weights, margins[i])
        finite &= _all_finite(margins[i])
        for p in range(n_bits):
            margins[i, p] -= biases[p]
    return finite


@kernel(f"void({_ROWS}, {_LABELS}, Array(float32, 2, 'C', readonly=True), int64, int64, float32[::1])")
def transposed_product(X, labels, slopes, first, last, out):
    """out[j] = sum over rows i of x_ij * slopes[i, labels[j]] for columns first <= j < last (X^T G of a bank).

    X (n, D), labels (D,), slopes (n, d), out (D,). Ranges of columns are independent of each other; `first` must be a
    multiple of 8, so that the order of summation never depends on how the columns are shared out.
    """
    n_rows, n_bits = slopes.shape
    tiled = n_rows // 8 * 8
    whole = first + (last - first) // 8 * 8
    tile = _tile_memory(n_bits)
    tile_at, labels_at, out_at = tile.ctypes.data, labels.ctypes.data, out.ctypes.data
    out[first:last] = 0
    for i in range(0, tiled, 8):
        for s in range(8):
            for p in range(n_bits):
                tile[p, s] = slopes[i + s, p]
        x = X.ctypes.data + i * X.strides[0]
        for j in range(first, whole, 8):
            _dot_columns(x + 4 * j, X.strides[0], labels_at + 4 * j, tile_at, out_at + 4 * j)
        for j in range(whole, last):
            for s in range(8):
                out[j] += X[i + s, j] * tile[labels[j], s]
    for i in range(tiled, n_rows):
        for j in range(first, last):
            out[j] += X[i, j] * slopes[i, labels[j]]


@kernel(f"void({_ROWS}, {_LABELS}, Array(float32, 2, 'C', readonly=True), int64, int64, float32[::1])")
def transposed_rows(X, labels, slopes, first, last, out):
    """The same for a soft bank and rows that are mostly 0: out[e] = sum over rows i of x_ij * slopes[i, labels[e]].

    labels and out (r D,), the r numbers of dimension j from r j on; columns first <= j < last.
    """
    n_assign = labels.size // X.shape[1]
    out[first * n_assign : last * n_assign] = 0
    for i in range(X.shape[0]):
        for j in range(first, last):
            x = X[i, j]
            if x != 0:
                for e in range(j * n_assign, (j + 1) * n_assign):
                    out[e] += x * slopes[i, labels[e]]
