"""The products of a head: few sums of a row, which sit in cache, times small matrices, always in the same order.

BLAS rounds differently for a block and for a single row. Here every result adds its products one after the other, each
rounded once (fused multiply-add), so a row gets the same numbers in any block.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from projbank.kernels.jit import kernel
from projbank.kernels.simd import F32, I64, fma, load, spread, store

WIDTH = 16
"""Columns of a panel."""
_WIDE = ir.VectorType(F32, WIDTH)
_ROWS = 12 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 6
"""Rows of a tile, whose sums stay in registers: a panel's 16 columns are one register with AVX-512, else two."""
_DEPTH = 512
"""Rows of a panel that are used in one go: 32 KiB, which the first cache holds."""


def panels(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cut a matrix (k, d) into panels of 16 columns, (ceil(d / 16), k, 16), filled up with zeros."""
    k, d = matrix.shape
    n_panels = -(-d // WIDTH)
    wide = np.zeros((k, n_panels * WIDTH), np.float32)
    wide[:, :d] = matrix
    return np.ascontiguousarray(wide.reshape(k, n_panels, WIDTH).swapaxes(0, 1))


def _tile(n_rows: int) -> Any:
    """Intrinsic that adds the product of some rows and a panel to their 16 results."""

    @intrinsic
    def add_products(typing, x, x_step, panel, depth, out, out_step):
        """out[i, :] += sum over k of x[i, k] * panel[k, :], in the order of k; addresses, and bytes from row to row."""

        def generate(context, builder, signature, args):
            x, x_step, panel, depth, out, out_step = args
            rows = [builder.add(x, builder.mul(x_step, I64(i))) for i in range(n_rows)]
            places = [builder.add(out, builder.mul(out_step, I64(i))) for i in range(n_rows)]
            sums = [cgutils.alloca_once_value(builder, load(builder, place, _WIDE)) for place in places]
            with cgutils.for_range(builder, depth) as loop:
                line = load(builder, builder.add(panel, builder.shl(loop.index, I64(6))), _WIDE)
                for row, total in zip(rows, sums, strict=True):
                    number = load(builder, builder.add(row, builder.shl(loop.index, I64(2))), F32)
                    builder.store(fma(builder, spread(builder, number, WIDTH), line, builder.load(total)), total)
            for place, total in zip(places, sums, strict=True):
                store(builder, builder.load(total), place)
            return context.get_dummy_value()

        return types.void(*(types.intp,) * 6), generate

    return add_products


_add_products, _add_products_1 = _tile(_ROWS), _tile(1)


@njit
def _multiply(X, matrix, out):
    n_rows, depth = X.shape
    out[:] = 0
    step, out_step = X.strides[0], out.strides[0]
    for first in range(0, depth, _DEPTH):
        part = min(_DEPTH, depth - first)
        for p in range(matrix.shape[0]):
            panel = matrix.ctypes.data + 4 * WIDTH * (p * depth + first)
            x, result = X.ctypes.data + 4 * first, out.ctypes.data + 4 * WIDTH * p
            whole = n_rows // _ROWS * _ROWS
            for i in range(0, whole, _ROWS):
                _add_products(x + i * step, step, panel, part, result + i * out_step, out_step)
            for i in range(whole, n_rows):
                _add_products_1(x + i * step, step, panel, part, result + i * out_step, out_step)


@kernel("void(Array(float32, 2, 'C', readonly=True), Array(float32, 3, 'C', readonly=True), float32[:, ::1])")
def multiply(X, matrix, out):
    """out[i, j] = sum over k of x_ik m_kj, in the order of k.

    X (n, K), matrix (P, K, 16) from `panels`, out (n, 16 P).
    """
    _multiply(X, matrix, out)
