"""The dense head: two matrices that turn a whole vector into margins and bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.head import WIDTH, multiply, panels
from projbank.kernels.pack import pack_above
from projbank.models.bank import block_bounds
from projbank.models.file import ModelFileError
from projbank.models.model import Floats, Model
from projbank.rows.source import RowSource

_BLOCK = 48
"""Rows that are multiplied together."""


@dataclass(frozen=True)
class DenseHead(Model):
    """Margins are x inner outer - biases; queries for asymmetric search are q inner outer - query_biases.

    inner (D, k); outer (k, n_bits); biases and query_biases (n_bits,), all float32.
    """

    inner: Floats
    outer: Floats
    biases: Floats
    query_biases: Floats
    loss_curve: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    names = ("inner", "outer", "biases", "query_biases", "loss_curve")

    @classmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]], params: dict[str, Any]) -> Self:
        """Check the arrays of a file and build the head."""
        inner, outer, biases, query_biases = floats = [arrays[name] for name in cls.names[:-1]]
        shapes = {name: array.shape for name, array in arrays.items()}
        if [array.ndim for array in floats] != [2, 2, 1, 1] or 0 in (*inner.shape, *outer.shape):
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        if len(outer) != inner.shape[1] or not outer.shape[1] == len(biases) == len(query_biases):
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        kinds = [str(array.dtype) for array in floats]
        if set(kinds) != {"float32"}:
            raise ModelFileError(f"arrays have the wrong types: {', '.join(kinds)}")
        if not all(np.isfinite(array).all() for array in floats):
            raise ModelFileError("matrices or biases are not finite")
        return cls(inner, outer, biases, query_biases, arrays["loss_curve"])

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.inner)

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Dimensions that each bit sees: all."""
        return np.full(self.n_bits, self.n_features)

    def write(self, rows: RowSource, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of rows."""
        rows.write(self._code, out, block_bounds(rows, n_threads), n_threads=n_threads, verbose=verbose)

    def query_values(self, rows: RowSource, *, n_threads: int = 1, verbose: int = 0) -> Floats:
        """Queries for asymmetric search, (n, n_bits), linear in the query; above 0 are the bits of a query."""
        values = self.margins(rows, n_threads=n_threads, verbose=verbose)
        values += self.biases - self.query_biases
        return values

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        """Code a block of rows, few at a time."""
        inner, outer = self._panels
        n = min(len(rows), _BLOCK)
        middle, wide = (np.empty((n, WIDTH * len(part)), np.float32) for part in (inner, outer))
        is_finite = True
        for start in range(0, len(rows), _BLOCK):
            stop = min(start + _BLOCK, len(rows))
            own, few = slice(0, stop - start), slice(start, stop)
            multiply(np.ascontiguousarray(rows[few]), inner, middle[own])
            is_finite &= bool(np.isfinite(middle[own]).all())
            multiply(np.ascontiguousarray(middle[own, : len(self.outer)]), outer, wide[own])
            if out.dtype == np.uint8:
                pack_above(wide[own], self.biases, out[few])
            else:
                np.subtract(wide[own, : self.n_bits], self.biases, out=out[few])
        return is_finite

    @cached_property
    def _panels(self) -> tuple[Floats, Floats]:
        """The matrices as the kernels want them."""
        return panels(self.inner), panels(self.outer)
