"""Kernel functions of short vectors: values k(u, v) of rows against the basis of one group, 16 basis vectors at a time.

Rows u and basis vectors v come scaled (`projbank.kernel_coding`), so that there are only two forms:

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

_f32, _i32, _i64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_v8, _v8i = ir.VectorType(_f32, 8), ir.VectorType(_i32, 8)


def _constant(value: float) -> Any:
    return ir.Constant(_v8, [float(np.float32(value))] * 8)


def _load(builder: Any, address: Any, kind: Any, offset: int = 0) -> Any:
    place = builder.inttoptr(builder.add(address, _i64(offset)), kind.as_pointer())
    return builder.load(place, align=4)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=4)


def _spread(builder: Any, number: Any) -> Any:
    """Eight copies of a number."""
    first = builder.insert_element(ir.Constant(_v8, ir.Undefined), number, _i32(0))
    return builder.shuffle_vector(first, first, ir.Constant(_v8i, [0] * 8))


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Give a * b + c, rounded once: the same on every machine."""
    kind = ir.FunctionType(_v8, [_v8] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.fma.v8f32"), [a, b, c])


def _clip(builder: Any, x: Any, low: float, high: float) -> Any:
    """Keep numbers in [low, high]; NaN (infinity less infinity, for rows far off) becomes `low`."""
    x = builder.select(builder.fcmp_ordered(">", x, _constant(low)), x, _constant(low))
    return builder.select(builder.fcmp_ordered("<", x, _constant(high)), x, _constant(high))


def _exp2(builder: Any, x: Any) -> Any:
    """2^x for x <= 0, to about 2e-7 of itself: 2^k by the exponent's bits, the rest by a polynomial."""
    x = _clip(builder, x, _LEAST, 0.0)
    rounded = builder.fadd(x, _constant(_ROUND))
    rest = builder.fsub(x, builder.fsub(rounded, _constant(_ROUND)))
    power = _constant(_EXP2[0])
    for coefficient in _EXP2[1:]:
        power = _fma(builder, power, rest, _constant(coefficient))
    whole = builder.shl(builder.bitcast(rounded, _v8i), ir.Constant(_v8i, [23] * 8))
    return builder.bitcast(builder.add(builder.bitcast(power, _v8i), whole), _v8)


def _values(builder: Any, n_rows: int, args: list[Any]) -> list[list[Any]]:
    """Kernel values of `n_rows` rows and 16 basis vectors, two vectors of 8 for each row.

    args: address of the rows, bytes from row to row, address of the block, number of dimensions, address of the
    basis vectors' -|v|^2 / 2, address of the rows' -|u|^2 / 2, degree.
    """
    rows, row_bytes, block, n_dims, halves, row_halves, degree = args
    places = [[cgutils.alloca_once(builder, _v8) for _ in range(2)] for _ in range(n_rows)]
    for r in range(n_rows):
        own = _spread(builder, _load(builder, row_halves, _f32, 4 * r))
        for k in range(2):
            builder.store(builder.fadd(_load(builder, halves, _v8, 32 * k), own), places[r][k])
    with cgutils.for_range(builder, n_dims) as loop:
        vectors = [_load(builder, builder.add(block, builder.shl(loop.index, _i64(6))), _v8, 32 * k) for k in range(2)]
        at = builder.add(rows, builder.shl(loop.index, _i64(2)))
        for r in range(n_rows):
            number = _spread(builder, _load(builder, at, _f32))
            for k in range(2):
                builder.store(_fma(builder, number, vectors[k], builder.load(places[r][k])), places[r][k])
            at = builder.add(at, row_bytes)
    flat = [place for pair in places for place in pair]
    with builder.if_else(builder.icmp_signed("==", degree, _i64(0))) as (radial, polynomial):
        with radial:
            for place in flat:
                builder.store(_exp2(builder, builder.load(place)), place)
        with polynomial:
            products = [builder.load(place) for place in flat]
            with cgutils.for_range(builder, builder.sub(degree, _i64(1))):
                for place, product in zip(flat, products, strict=True):
                    power = builder.load(place)
                    builder.store(_fma(builder, power, product, builder.fadd(power, product)), place)
    return [[builder.load(place) for place in pair] for pair in places]


def _make_tile(n_rows: int) -> tuple[Any, Any, Any]:
    """The three uses of the values of some rows and one block; every argument is an address or a number."""

    def dot(typing: Any, rows: Any, row_bytes: Any, block: Any, n_dims: Any, halves: Any, row_halves: Any, degree: Any,
            coefficients: Any, sums: Any) -> Any:  # fmt: skip
        """sums[r] += coefficients * values, 8 sums for each row."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *shape, coefficients, sums = args
            for r, pair in enumerate(_values(builder, n_rows, shape)):
                at = builder.add(sums, _i64(32 * r))
                total = _load(builder, at, _v8)
                for k, values in enumerate(pair):
                    total = _fma(builder, _load(builder, coefficients, _v8, 32 * k), values, total)
                _store(builder, total, at)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 9), generate

    def store(typing: Any, rows: Any, row_bytes: Any, block: Any, n_dims: Any, halves: Any, row_halves: Any,
              degree: Any, out: Any, out_bytes: Any) -> Any:  # fmt: skip
        """out[r] = values."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *shape, out, out_bytes = args
            for pair in _values(builder, n_rows, shape):
                for k, values in enumerate(pair):
                    _store(builder, values, builder.add(out, _i64(32 * k)))
                out = builder.add(out, out_bytes)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 9), generate

    def pull(typing: Any, rows: Any, row_bytes: Any, block: Any, n_dims: Any, halves: Any, row_halves: Any,
             degree: Any, slopes: Any, out: Any) -> Any:  # fmt: skip
        """Add the sum over rows of slopes[r] * values to `out`."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *shape, slopes, out = args
            totals = [_load(builder, out, _v8, 32 * k) for k in range(2)]
            for r, pair in enumerate(_values(builder, n_rows, shape)):
                slope = _spread(builder, _load(builder, slopes, _f32, 4 * r))
                totals = [_fma(builder, slope, values, total) for values, total in zip(pair, totals, strict=True)]
            for k, total in enumerate(totals):
                _store(builder, total, builder.add(out, _i64(32 * k)))
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 9), generate

    return intrinsic(dot), intrinsic(store), intrinsic(pull)


_dot4, _store4, _pull4 = _make_tile(_ROWS_TOGETHER)
_dot1, _store1, _pull1 = _make_tile(1)


@intrinsic
def _square_sum(typing: Any, numbers: Any, count: Any) -> Any:
    """Sum of squares of `count` float32 from an address on, in a fixed order: 8 lanes, a tree, then the rest."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers, count = args
        lanes, rest = cgutils.alloca_once(builder, _v8), cgutils.alloca_once(builder, _f32)
        builder.store(_constant(0.0), lanes)
        whole = builder.ashr(count, _i64(3))
        with cgutils.for_range(builder, whole) as loop:
            eight = _load(builder, builder.add(numbers, builder.shl(loop.index, _i64(5))), _v8)
            builder.store(_fma(builder, eight, eight, builder.load(lanes)), lanes)
        builder.store(_sum_lanes(builder, builder.load(lanes)), rest)
        numbers = builder.add(numbers, builder.shl(whole, _i64(5)))
        with cgutils.for_range(builder, builder.and_(count, _i64(7))) as loop:
            number = _load(builder, builder.add(numbers, builder.shl(loop.index, _i64(2))), _f32)
            builder.store(builder.fadd(builder.load(rest), builder.fmul(number, number)), rest)
        return builder.load(rest)

    return types.float32(types.intp, types.intp), generate


def _sum_lanes(builder: Any, vector: Any) -> Any:
    for step in (4, 2, 1):
        order = ir.Constant(_v8i, [(k + step) % 8 for k in range(8)])
        vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, order))
    return builder.extract_element(vector, _i32(0))


@intrinsic
def _total(typing: Any, numbers: Any) -> Any:
    """Sum of the 8 float32 at an address, as a tree."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _sum_lanes(builder, _load(builder, args[0], _v8))

    return types.float32(types.intp), generate


@njit
def _row_halves(U, i, count, first, n_dims, degree, halves):
    """halves[r] = -|u|^2 / 2 of rows i + r in dimensions first to first + n_dims, or 0 for a polynomial kernel."""
    for r in range(count):
        at = U.ctypes.data + (i + r) * U.strides[0] + 4 * first
        halves[r] = np.float32(-0.5) * _square_sum(at, n_dims) if degree == 0 else np.float32(0)


_NUMBERS = "Array(float32, 1, 'C', readonly=True)"
_INDICES = "Array(int64, 1, 'C', readonly=True)"
_MATRIX = "Array(float32, 2, 'C', readonly=True)"
_BANK = f"{_INDICES}, {_NUMBERS}, {_NUMBERS}, int64"


@kernel(
    f"boolean(Array(float32, 2, 'A', readonly=True), Array(int32, 1, 'C', readonly=True), {_NUMBERS}, {_NUMBERS}, "
    "float32[:, ::1])"
)
def gather_groups(X, columns, scale, shift, U):
    """U[i, c] = X[i, columns[c]] * scale[c] - shift[c]; False if any value of X is NaN or infinite.

    A row is first looked through in order, which brings it into the cache that the scattered reads are served from.
    """
    largest = np.int32(0)
    for i in range(X.shape[0]):
        row = X[i]
        for j in range(row.size):
            largest = max(largest, np.float32(row[j]).view(np.int32) & np.int32(0x7FFFFFFF))
        for c in range(columns.size):
            U[i, c] = row[columns[c]] * scale[c] - shift[c]
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
                halves[p * n_pad + i] = np.float32(-0.5) * _square_sum(start, n_dims)


@kernel(f"void({_MATRIX}, {_BANK}, {_MATRIX}, {_NUMBERS}, int64, int64, float32[:, ::1])")
def kernel_margins(U, indptr, blocks, halves, degree, coefficients, biases, first, last, F):
    """F[i, p] = sum over basis vectors of coefficients[p] * k(u_i, v) - biases[p], for groups first <= p < last.

    U (rows, m) gathered rows; coefficients (d, n_pad), 0 past n; F (rows, d).
    """
    n_rows, n_pad = U.shape[0], coefficients.shape[1]
    u, row_bytes = U.ctypes.data, U.strides[0]
    sums, own = np.empty(8 * _ROWS_TOGETHER, np.float32), np.empty(_ROWS_TOGETHER, np.float32)
    sums_at, own_at = sums.ctypes.data, own.ctypes.data
    tiled = n_rows // _ROWS_TOGETHER * _ROWS_TOGETHER
    for p in range(first, last):
        n_dims = indptr[p + 1] - indptr[p]
        block_at = blocks.ctypes.data + 4 * n_pad * indptr[p]
        halves_at = halves.ctypes.data + 4 * n_pad * p
        coefficients_at = coefficients.ctypes.data + p * coefficients.strides[0]
        for i in range(0, tiled, _ROWS_TOGETHER):
            _row_halves(U, i, _ROWS_TOGETHER, indptr[p], n_dims, degree, own)
            sums[:] = 0
            rows = u + i * row_bytes + 4 * indptr[p]
            for k in range(0, n_pad, LANES):
                _dot4(rows, row_bytes, block_at + 4 * k * n_dims, n_dims, halves_at + 4 * k, own_at, degree,
                      coefficients_at + 4 * k, sums_at)  # fmt: skip
            for r in range(_ROWS_TOGETHER):
                F[i + r, p] = _total(sums_at + 32 * r) - biases[p]
        for i in range(tiled, n_rows):
            _row_halves(U, i, 1, indptr[p], n_dims, degree, own)
            sums[:] = 0
            rows = u + i * row_bytes + 4 * indptr[p]
            for k in range(0, n_pad, LANES):
                _dot1(rows, row_bytes, block_at + 4 * k * n_dims, n_dims, halves_at + 4 * k, own_at, degree,
                      coefficients_at + 4 * k, sums_at)  # fmt: skip
            F[i, p] = _total(sums_at) - biases[p]


@kernel(f"void({_MATRIX}, {_BANK}, int64, int64, float32[:, ::1])")
def kernel_matrix(U, indptr, blocks, halves, degree, p, n_basis, K):
    """K[i, j] = k(u_i, v_j) of group p for the `n_basis` basis vectors; K (rows, n_basis)."""
    n_rows = U.shape[0]
    n_pad = (n_basis + LANES - 1) // LANES * LANES
    n_dims = indptr[p + 1] - indptr[p]
    u, row_bytes = U.ctypes.data, U.strides[0]
    tile, own = np.empty((_ROWS_TOGETHER, n_pad), np.float32), np.empty(_ROWS_TOGETHER, np.float32)
    block_at, halves_at = blocks.ctypes.data + 4 * n_pad * indptr[p], halves.ctypes.data + 4 * n_pad * p
    for i in range(0, n_rows, _ROWS_TOGETHER):
        count = min(_ROWS_TOGETHER, n_rows - i)
        _row_halves(U, i, count, indptr[p], n_dims, degree, own)
        rows = u + i * row_bytes + 4 * indptr[p]
        for k in range(0, n_pad, LANES):
            if count == _ROWS_TOGETHER:
                _store4(rows, row_bytes, block_at + 4 * k * n_dims, n_dims, halves_at + 4 * k, own.ctypes.data, degree,
                        tile.ctypes.data + 4 * k, 4 * n_pad)  # fmt: skip
            else:
                for r in range(count):
                    row_at, tile_at = rows + r * row_bytes, tile.ctypes.data + 4 * (r * n_pad + k)
                    _store1(row_at, row_bytes, block_at + 4 * k * n_dims, n_dims, halves_at + 4 * k,
                            own.ctypes.data + 4 * r, degree, tile_at, 4 * n_pad)  # fmt: skip
        for r in range(count):
            for j in range(n_basis):
                K[i + r, j] = tile[r, j]


@kernel(f"void({_MATRIX}, {_BANK}, {_MATRIX}, int64, int64, float32[:, ::1])")
def kernel_slopes(U, indptr, blocks, halves, degree, slopes, first, last, out):
    """out[p] = sum over rows i of slopes[i, p] * k(u_i, v), for groups first <= p < last: chain rule of the margins.

    slopes (rows, d); out (d, n_pad), what stands past n means nothing.
    """
    n_rows, n_pad = U.shape[0], out.shape[1]
    u, row_bytes = U.ctypes.data, U.strides[0]
    own, pulls = np.empty(_ROWS_TOGETHER, np.float32), np.empty(_ROWS_TOGETHER, np.float32)
    own_at, pulls_at = own.ctypes.data, pulls.ctypes.data
    tiled = n_rows // _ROWS_TOGETHER * _ROWS_TOGETHER
    for p in range(first, last):
        n_dims = indptr[p + 1] - indptr[p]
        block_at = blocks.ctypes.data + 4 * n_pad * indptr[p]
        halves_at = halves.ctypes.data + 4 * n_pad * p
        out_at = out.ctypes.data + p * out.strides[0]
        out[p] = 0
        for i in range(0, tiled, _ROWS_TOGETHER):
            _row_halves(U, i, _ROWS_TOGETHER, indptr[p], n_dims, degree, own)
            for r in range(_ROWS_TOGETHER):
                pulls[r] = slopes[i + r, p]
            rows = u + i * row_bytes + 4 * indptr[p]
            for k in range(0, n_pad, LANES):
                _pull4(rows, row_bytes, block_at + 4 * k * n_dims, n_dims, halves_at + 4 * k, own_at, degree,
                       pulls_at, out_at + 4 * k)  # fmt: skip
        for i in range(tiled, n_rows):
            _row_halves(U, i, 1, indptr[p], n_dims, degree, own)
            pulls[0] = slopes[i, p]
            rows = u + i * row_bytes + 4 * indptr[p]
            for k in range(0, n_pad, LANES):
                _pull1(rows, row_bytes, block_at + 4 * k * n_dims, n_dims, halves_at + 4 * k, own_at, degree,
                       pulls_at, out_at + 4 * k)  # fmt: skip


@kernel("float64(float32[:, ::1], float64[::1])")
def center_rows(K, means):
    """Subtract every row's mean in place and note it in `means`; returns the largest absolute value that is left."""
    peak = np.float32(0)
    for i in range(K.shape[0]):
        lanes = np.zeros(8, np.float64)
        whole = K.shape[1] // 8 * 8
        for j in range(0, whole, 8):
            for k in range(8):
                lanes[k] += K[i, j + k]
        total = 0.0
        for k in range(8):
            total += lanes[k]
        for j in range(whole, K.shape[1]):
            total += K[i, j]
        means[i] = total / K.shape[1]
        mean = np.float32(means[i])
        for j in range(K.shape[1]):
            K[i, j] -= mean
            peak = max(peak, abs(K[i, j]))
    return peak


@kernel(f"float64({_MATRIX}, int64)")
def mean_neighbor_distance(XT, k):
    """Mean over samples of the mean Euclidean distance to their k nearest others.

    XT (m, n): dimension after dimension. The sums of squares are plain, so equal samples are exactly 0 apart.
    """
    n = XT.shape[1]
    squares = np.empty(n, np.float32)
    nearest = np.empty(k, np.float32)
    total = 0.0
    for i in range(n):
        squares[:] = 0
        for q in range(XT.shape[0]):
            x = XT[q, i]
            for j in range(n):
                difference = XT[q, j] - x
                squares[j] += difference * difference
        squares[i] = np.inf
        nearest[:] = np.inf
        for j in range(n):
            if squares[j] < nearest[k - 1]:
                place = k - 1
                while place > 0 and nearest[place - 1] > squares[j]:
                    nearest[place] = nearest[place - 1]
                    place -= 1
                nearest[place] = squares[j]
        for place in range(k):
            total += np.sqrt(np.float64(nearest[place]))
    return total / (n * k)
