"""What kernels emit as vector instructions: eight float32 at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

F32 = ir.FloatType()
I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
V8, V8I = ir.VectorType(F32, 8), ir.VectorType(I32, 8)


def pointer(builder, address, kind):
    """Take an address for a pointer."""
    return builder.inttoptr(address, kind.as_pointer())


def load(builder, address, kind, offset=0):
    """Load what stands some bytes behind an address."""
    at = builder.add(address, I64(offset)) if offset else address
    return builder.load(pointer(builder, at, kind), align=4)


def store(builder, value, address):
    """Store a value at an address."""
    builder.store(value, pointer(builder, address, value.type), align=4)


def shuffle(builder, a, b, order):
    """Eight of the sixteen numbers of two vectors."""
    return builder.shuffle_vector(a, b, ir.Constant(V8I, order))


def spread(builder, number, n=8):
    """Copies of a number, `n` of them."""
    first = builder.insert_element(ir.Constant(ir.VectorType(F32, n), ir.Undefined), number, I32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, n), [0] * n))


def constant(value: float) -> Any:
    """Eight copies of a number that is known."""
    return ir.Constant(V8, [float(np.float32(value))] * 8)


def fma(builder, a, b, c):
    """Give a * b + c, rounded once: the same on every machine."""
    kind, name = ir.FunctionType(a.type, [a.type] * 3), f"llvm.fma.v{a.type.count}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])


def transpose8(builder, rows):
    """Transpose an 8 x 8 block that is held in 8 vectors: pairs, then fours, then halves."""
    low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    pairs = [shuffle(builder, rows[k], rows[k + 1], order) for k in range(0, 8, 2) for order in (low, high)]
    even, odd = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
    fours = [shuffle(builder, pairs[k], pairs[k + 2], order) for k in (0, 1, 4, 5) for order in (even, odd)]
    first, second = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
    return [shuffle(builder, fours[k], fours[k + 4], order) for order in (first, second) for k in range(4)]
