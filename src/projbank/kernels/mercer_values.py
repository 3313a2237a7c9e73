"""Kernel functions of short vectors: values k(u, v) of rows against the basis of one group, 16 basis vectors at a time.

Rows u and basis vectors v come scaled (`projbank.models.mercer`), so that there are only two forms:

    degree 0:   exp2(u . v - |u|^2 / 2 - |v|^2 / 2)         the RBF kernel
    degree t:   (u . v + 1)^t - 1                           the polynomial kernel less its constant; t = 1 is linear

A basis is held in blocks of 16 vectors, dimension after dimension, so that one vector operation serves 8 of them. Four
rows share what is loaded; every row is summed in the same order, alone or with others, so it gets the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from projbank.kernels.jit import kernel
from projbank.kernels.simd import F32, I32, I64, V8, V8I, constant, fma, load, shuffle, spread, store

LANES = 16
"""Basis vectors in a block."""

_ROWS_TOGETHER = 4
_LEAST = -125.0
"""Exponents below are taken as this: 2e-38 stands for 0."""
_ROUND = 12582912.0
"""1.5 * 2^23: adding it to a float32 rounds that to an integer, which then stands in the low bits."""
_EXP2 = (
    1.535336188319500e-4,
    1.339887440266574e-3,
    9.618437357674640e-3,
    5.550332471162809e-2,
    2.402264791363012e-1,
    6.931472028550421e-1,
    1.0,
)
"""2^x on [-1/2, 1/2], highest power first (Cephes, exp2f)."""


def _clip(builder, x, low, high):
    """Keep numbers in [low, high]; NaN (infinity less infinity, for rows far off) becomes `low`."""
    x = builder.select(builder.fcmp_ordered(">", x, constant(low)), x, constant(low))
    return builder.select(builder.fcmp_ordered("<", x, constant(high)), x, constant(high))


def _exp2(builder, x):
    """2^x for x <= 0, to about 2e-7 of itself: 2^k by the exponent's bits, the rest by a polynomial."""
    x = _clip(builder, x, _LEAST, 0.0)
    rounded = builder.fadd(x, constant(_ROUND))
    rest = builder.fsub(x, builder.fsub(rounded, constant(_ROUND)))
    power = constant(_EXP2[0])
    for coefficient in _EXP2[1:]:
        power = fma(builder, power, rest, constant(coefficient))
    whole = builder.shl(builder.bitcast(rounded, V8I), ir.Constant(V8I, [23] * 8))
    return builder.bitcast(builder.add(builder.bitcast(power, V8I), whole), V8)


def _sum_lanes(builder, vector):
    """Sum of 8 numbers, as a tree."""
    for step in (4, 2, 1):
        turned = shuffle(builder, vector, vector, [(k + step) % 8 for k in range(8)])
        vector = builder.fadd(vector, turned)
    return builder.extract_element(vector, I32(0))


def _half_squares(builder, numbers, count):
    """-1/2 of the sum of squares of `count` float32 from an address on: 8 lanes, a tree, then the rest."""
    lanes, total = cgutils.alloca_once(builder, V8), cgutils.alloca_once(builder, F32)
    builder.store(constant(0.0), lanes)
    whole = builder.ashr(count, I64(3))
    with cgutils.for_range(builder, whole) as loop:
        eight = load(builder, builder.add(numbers, builder.shl(loop.index, I64(5))), V8)
        builder.store(fma(builder, eight, eight, builder.load(lanes)), lanes)
    builder.store(_sum_lanes(builder, builder.load(lanes)), total)
    numbers = builder.add(numbers, builder.shl(whole, I64(5)))
    with cgutils.for_range(builder, builder.and_(count, I64(7))) as loop:
        number = load(builder, builder.add(numbers, builder.shl(loop.index, I64(2))), F32)
        builder.store(builder.fadd(builder.load(total), builder.fmul(number, number)), total)
    return builder.fmul(builder.load(total), ir.Constant(F32, -0.5))


def _block_values(builder, n_rows, shape, block, halves, row_halves):
    """Kernel values of some rows and 16 basis vectors, two vectors a row; row_halves: address of the rows' halves."""
    rows, row_bytes, n_dims, degree = shape
    places = [[cgutils.alloca_once(builder, V8) for _ in range(2)] for _ in range(n_rows)]
    first = [load(builder, halves, V8, 32 * k) for k in range(2)]
    for r, pair in enumerate(places):
        own = spread(builder, load(builder, row_halves, F32, 4 * r))
        for k in range(2):
            builder.store(builder.fadd(first[k], own), pair[k])
    with cgutils.for_range(builder, n_dims) as loop:
        vectors = [load(builder, builder.add(block, builder.shl(loop.index, I64(6))), V8, 32 * k) for k in range(2)]
        at = builder.add(rows, builder.shl(loop.index, I64(2)))
        for pair in places:
            number = spread(builder, load(builder, at, F32))
            for k in range(2):
                builder.store(fma(builder, number, vectors[k], builder.load(pair[k])), pair[k])
            at = builder.add(at, row_bytes)
    flat = [place for pair in places for place in pair]
    with builder.if_else(builder.icmp_signed("==", degree, I64(0))) as (radial, polynomial):
        with radial:
            for place in flat:
                builder.store(_exp2(builder, builder.load(place)), place)
        with polynomial:
            products = [builder.load(place) for place in flat]
            with cgutils.for_range(builder, builder.sub(degree, I64(1))):
                for place, product in zip(flat, products, strict=True):
                    power = builder.load(place)
                    builder.store(fma(builder, power, product, builder.fadd(power, product)), place)
    return [[builder.load(place) for place in pair] for pair in places]


def _make_uses(n_rows: int) -> tuple[Any, Any]:
    """Two intrinsics that go through the blocks of one group with `n_rows` rows; arguments are addresses or numbers.

    Common to all: address of the rows, bytes from row to row, number of dimensions, degree, address of the blocks and
    of the basis vectors' -|v|^2 / 2, number of blocks, address of the rows' -|u|^2 / 2.
    """

    def each_block(builder, args, use):
        rows, row_bytes, n_dims, degree, blocks, halves, n_blocks, row_halves = args
        block_bytes = builder.shl(n_dims, I64(6))
        with cgutils.for_range(builder, n_blocks) as loop:
            offset = builder.shl(loop.index, I64(6))
            block = builder.add(blocks, builder.mul(loop.index, block_bytes))
            shape = [rows, row_bytes, n_dims, degree]
            use(offset, _block_values(builder, n_rows, shape, block, builder.add(halves, offset), row_halves))

    def dot(typing, rows, row_bytes, n_dims, degree, blocks, halves, n_blocks, row_halves, coefficients, sums):
        """sums[r] = sum of coefficients * values in 8 lanes; in memory, since the products need all registers."""

        def generate(context, builder, signature, args):
            *common, coefficients, sums = args
            places = [builder.add(sums, I64(32 * r)) for r in range(n_rows)]
            for place in places:
                store(builder, constant(0.0), place)

            def add(offset, values):
                own = [load(builder, builder.add(coefficients, offset), V8, 32 * k) for k in range(2)]
                for place, pair in zip(places, values, strict=True):
                    total = fma(builder, own[0], pair[0], load(builder, place, V8))
                    store(builder, fma(builder, own[1], pair[1], total), place)

            each_block(builder, common, add)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 10), generate

    def keep_values(typing, rows, row_bytes, n_dims, degree, blocks, halves, n_blocks, row_halves, out, out_bytes):
        """out[r] = values, `out_bytes` from one row to the next."""

        def generate(context, builder, signature, args):
            *common, out, out_bytes = args

            def keep(offset, values):
                at = builder.add(out, offset)
                for pair in values:
                    for k in range(2):
                        store(builder, pair[k], builder.add(at, I64(32 * k)))
                    at = builder.add(at, out_bytes)

            each_block(builder, common, keep)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 10), generate

    return intrinsic(dot), intrinsic(keep_values)


_dot4, _store4 = _make_uses(_ROWS_TOGETHER)
_dot1, _store1 = _make_uses(1)


@intrinsic
def _minus_half_square(typing, numbers, count):
    """-1/2 of the sum of squares of `count` float32 from an address on, as for rows."""

    def generate(context, builder, signature, args):
        return _half_squares(builder, *args)

    return types.float32(types.intp, types.intp), generate


@intrinsic
def _total(typing, numbers):
    """Sum of the 8 float32 at an address, as a tree."""

    def generate(context, builder, signature, args):
        return _sum_lanes(builder, load(builder, args[0], V8))

    return types.float32(types.intp), generate


@njit
def _row_halves(rows, row_bytes, n_dims, degree, out):
    """out[r] = -|u|^2 / 2 of the rows from an address on, or 0 for a polynomial kernel."""
    for r in range(out.size):
        out[r] = _minus_half_square(rows + r * row_bytes, n_dims) if degree == 0 else np.float32(0)


_NUMBERS = "Array(float32, 1, 'C', readonly=True)"
_INDICES = "Array(int64, 1, 'C', readonly=True)"
_MATRIX = "Array(float32, 2, 'C', readonly=True)"
_BANK = f"{_INDICES}, {_NUMBERS}, {_NUMBERS}, int64"


@intrinsic
def _largest(typing, numbers, count):
    """Largest of the absolute values of `count` times 8 float32 from an address on, by their bits, as an int32."""

    def generate(context, builder, signature, args):
        numbers, count = args
        lanes = cgutils.alloca_once(builder, V8I)
        builder.store(ir.Constant(V8I, [0] * 8), lanes)
        with cgutils.for_range(builder, count) as loop:
            bits = load(builder, builder.add(numbers, builder.shl(loop.index, I64(5))), V8I)
            bits = builder.and_(bits, ir.Constant(V8I, [0x7FFFFFFF] * 8))
            known = builder.load(lanes)
            builder.store(builder.select(builder.icmp_signed(">", bits, known), bits, known), lanes)
        lanes = builder.load(lanes)
        result = builder.extract_element(lanes, I32(0))
        for k in range(1, 8):
            lane = builder.extract_element(lanes, I32(k))
            result = builder.select(builder.icmp_signed(">", lane, result), lane, result)
        return result

    return types.int32(types.intp, types.intp), generate


@njit
def _tile_of(indptr, p, tile):
    """First column of the tile that group p is in, and the tile's number of columns."""
    first = p // tile * tile
    start = indptr[first]
    return start, indptr[min(first + tile, indptr.size - 1)] - start


@kernel(
    f"boolean(Array(float32, 2, 'A', readonly=True), {_INDICES}, Array(int32, 1, 'C', readonly=True), {_NUMBERS}, "
    f"{_NUMBERS}, int64, float32[:, ::1])"
)
def gather_groups(X, indptr, columns, scale, shift, tile, U):
    """U[i, c] = X[i, columns[c]] * scale[c] - shift[c]; False if any value of X is NaN or infinite.

    X (rows, D) with adjacent columns. U (rows, m) is filled tile by tile: the columns of the first `tile` groups for
    all rows, then those of the next; with a tile of all d groups that is the plain order. What is read together later
    so stands together. A row is first looked through in order, which brings it into the cache that the scattered
    reads are served from.
    """
    n_rows, n_features = X.shape
    n_groups = indptr.size - 1
    flat = U.reshape(-1)
    largest = np.int32(0)
    for i in range(n_rows):
        row = X[i]
        largest = max(largest, _largest(X.ctypes.data + i * X.strides[0], n_features // 8))
        for j in range(n_features // 8 * 8, n_features):
            largest = max(largest, np.float32(row[j]).view(np.int32) & np.int32(0x7FFFFFFF))
        for p in range(0, n_groups, tile):
            start, width = _tile_of(indptr, p, tile)
            own = flat[n_rows * start + i * width : n_rows * start + (i + 1) * width]
            places, factors, shifts = columns[start : start + width], scale[start:], shift[start:]
            for c in range(width):
                own[c] = row[np.uint32(places[c])] * factors[c] - shifts[c]
    return largest < np.int32(0x7F800000)


@kernel(f"void({_MATRIX}, {_INDICES}, int64, float32[::1], float32[::1])")
def arrange_basis(V, indptr, degree, blocks, halves):
    """Put scaled basis vectors V (n, m) into the blocks that the other kernels read; places past n are 0.

    indptr (d + 1,): where the columns of each group begin; blocks (n_pad * m,), group after group and in it 16 vectors
    after 16; halves (d * n_pad,): -|v|^2 / 2, or 0 for polynomial kernels. n_pad is n rounded up to 16.
    """
    n = V.shape[0]
    n_pad = (n + LANES - 1) // LANES * LANES
    blocks[:] = 0
    halves[:] = 0
    for p in range(indptr.size - 1):
        n_dims = indptr[p + 1] - indptr[p]
        for i in range(n):
            at = n_pad * indptr[p] + (i // LANES) * LANES * n_dims + i % LANES
            for q in range(n_dims):
                blocks[at + LANES * q] = V[i, indptr[p] + q]
            if degree == 0:
                start = V.ctypes.data + i * V.strides[0] + 4 * indptr[p]
                halves[p * n_pad + i] = _minus_half_square(start, n_dims)


@kernel(f"void({_MATRIX}, {_BANK}, {_MATRIX}, {_NUMBERS}, int64, float32[:, ::1])")
def kernel_margins(U, indptr, blocks, halves, degree, coefficients, biases, tile, F):
    """F[i, p] = sum over basis vectors of coefficients[p] * k(u_i, v) - biases[p].

    U (rows, m) as `gather_groups` fills it with that `tile`; coefficients (d, n_pad), 0 past n; F (rows, d).
    """
    n_rows, n_pad = U.shape[0], coefficients.shape[1]
    own, sums = np.empty(n_rows, np.float32), np.empty((n_rows, 8), np.float32)
    tiled = n_rows // _ROWS_TOGETHER * _ROWS_TOGETHER
    for p in range(indptr.size - 1):
        start, width = _tile_of(indptr, p, tile)
        u, row_bytes = U.ctypes.data + 4 * (n_rows * start + indptr[p] - start), 4 * width
        n_dims = indptr[p + 1] - indptr[p]
        basis, constants = blocks.ctypes.data + 4 * n_pad * indptr[p], halves.ctypes.data + 4 * n_pad * p
        factors = coefficients.ctypes.data + p * coefficients.strides[0]
        _row_halves(u, row_bytes, n_dims, degree, own)
        for i in range(0, tiled, _ROWS_TOGETHER):
            _dot4(u + i * row_bytes, row_bytes, n_dims, degree, basis, constants, n_pad // LANES,
                  own.ctypes.data + 4 * i, factors, sums.ctypes.data + 32 * i)  # fmt: skip
        for i in range(tiled, n_rows):
            _dot1(u + i * row_bytes, row_bytes, n_dims, degree, basis, constants, n_pad // LANES,
                  own.ctypes.data + 4 * i, factors, sums.ctypes.data + 32 * i)  # fmt: skip
        for i in range(n_rows):
            F[i, p] = _total(sums.ctypes.data + 32 * i) - biases[p]


@kernel(f"void({_MATRIX}, {_BANK}, int64, int64, float32[:, ::1])")
def kernel_matrix(U, indptr, blocks, halves, degree, p, n_basis, K):
    """K[i, j] = k(u_i, v_j) of group p for the `n_basis` basis vectors; K (rows, n_basis), U in the plain order."""
    n_rows, row_bytes = U.shape[0], U.strides[0]
    n_pad = (n_basis + LANES - 1) // LANES * LANES
    u, n_dims = U.ctypes.data + 4 * indptr[p], indptr[p + 1] - indptr[p]
    basis, constants = blocks.ctypes.data + 4 * n_pad * indptr[p], halves.ctypes.data + 4 * n_pad * p
    own, values = np.empty(n_rows, np.float32), np.empty((_ROWS_TOGETHER, n_pad), np.float32)
    _row_halves(u, row_bytes, n_dims, degree, own)
    for i in range(0, n_rows, _ROWS_TOGETHER):
        count = min(_ROWS_TOGETHER, n_rows - i)
        if count == _ROWS_TOGETHER:
            _store4(u + i * row_bytes, row_bytes, n_dims, degree, basis, constants, n_pad // LANES,
                    own.ctypes.data + 4 * i, values.ctypes.data, values.strides[0])  # fmt: skip
        else:
            for r in range(count):
                _store1(u + (i + r) * row_bytes, row_bytes, n_dims, degree, basis, constants, n_pad // LANES,
                        own.ctypes.data + 4 * (i + r), values.ctypes.data + r * values.strides[0], 0)  # fmt: skip
        for r in range(count):
            for j in range(n_basis):
                K[i + r, j] = values[r, j]
