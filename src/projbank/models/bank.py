"""The bank: any kind of rows to sums or bits in one pass over each row; the headed bank, which mixes sums to bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.kernels.encode import code_rows, margin_rows
from projbank.kernels.head import WIDTH, multiply, panels
from projbank.kernels.pack import pack_above
from projbank.models.file import ModelFileError
from projbank.models.model import Floats, Model
from projbank.rows.source import BLOCK_BYTES, RowSource

_READ_BYTES = 64 << 20
"""Bytes of a mapped file that all threads together look at before its memory is let go."""
SMALL = 1 << 24
"""Numbers below which rows are coded at once: starting threads would cost more than it wins."""
_BLOCK = 48
"""Rows of a headed bank whose sums are in cache together."""


@dataclass(frozen=True)
class Bank(Model):
    """Weighted sums of groups of dimensions, and a threshold for each.

    labels (D,) int32, or (r, D) where a dimension serves r groups; weights float32, shaped alike; biases (n_bits,)
    float32. `bends`: queries for asymmetric search are tanh of the margins, as the joint learner takes them for bits
    while it learns; with the margins, few large ones would drown the rest.
    """

    labels: NDArray[np.int32]
    weights: Floats
    biases: Floats
    loss_curve: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    bends: bool = False

    names = ("labels", "weights", "biases", "loss_curve")

    @classmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]], params: dict[str, Any]) -> Self:
        """Check the arrays of a file and build the bank."""
        labels, weights, biases = arrays["labels"], arrays["weights"], arrays["biases"]
        if [labels.ndim, biases.ndim] not in ([1, 1], [2, 1]) or weights.shape != labels.shape:
            shapes = {name: array.shape for name, array in arrays.items()}
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        kinds = [str(array.dtype) for array in (labels, weights, biases)]
        if kinds != ["int32", "float32", "float32"]:
            raise ModelFileError(f"arrays have the wrong types: {', '.join(kinds)}")
        if labels.size == 0 or labels.min() < 0 or labels.max() >= len(biases):
            raise ModelFileError("labels point to groups that do not exist")
        if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
            raise ModelFileError("weights or biases are not finite")
        return cls(labels, weights, biases, arrays["loss_curve"], bends=params.get("solver") == "joint")

    @property
    def n_features(self) -> int:
        """D."""
        return self.labels.shape[-1]

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Dimensions of each group."""
        return np.bincount(self.labels.ravel(), minlength=self.n_bits)

    def write(self, rows: RowSource, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of rows."""
        write_bank(rows, *self._flat, self.biases, out, n_threads=n_threads, verbose=verbose)

    def query_values(self, rows: RowSource, *, n_threads: int = 1, verbose: int = 0) -> Floats:
        """Queries for asymmetric search, (n, n_bits)."""
        margins = self.margins(rows, n_threads=n_threads, verbose=verbose)
        return np.tanh(margins, out=margins) if self.bends else margins

    def to_csr(self) -> sp.csr_array:
        """Return the weights as a sparse matrix, (n_bits, D), with ascending columns."""
        indptr, columns = group_columns(self.labels, self.n_bits)
        labels, weights = self._flat
        return sp.csr_array(
            (weights[np.argsort(labels, kind="stable")], columns, indptr), shape=(self.n_bits, self.n_features)
        )

    @cached_property
    def _flat(self) -> tuple[NDArray[np.uint32], Floats]:
        """Labels and weights, dimension after dimension, as the kernels want them."""
        return self.labels.T.ravel().view(np.uint32), self.weights.T.ravel()


@dataclass(frozen=True)
class HeadedBank(Model):
    """Margins are (f - centers) inner outer - biases, where f are the m sums of a bank.

    labels (D,) int32, or (r, D) where a dimension serves r sums; weights float32, shaped alike; centers (m,); inner
    (m, k); outer (k, n_bits); biases (n_bits,), all float32. Queries for asymmetric search are tanh of the
    margins, as in learning.
    """

    labels: NDArray[np.int32]
    weights: Floats
    centers: Floats
    inner: Floats
    outer: Floats
    biases: Floats
    loss_curve: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    names = ("labels", "weights", "centers", "inner", "outer", "biases", "loss_curve")

    @classmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]], params: dict[str, Any]) -> Self:
        """Check the arrays of a file and build the bank."""
        labels, weights, centers, inner, outer, biases = (arrays[name] for name in cls.names[:-1])
        floats = [weights, centers, inner, outer, biases]
        shapes = {name: array.shape for name, array in arrays.items()}
        fits = [labels.ndim in (1, 2), centers.ndim == 1, inner.ndim == 2, outer.ndim == 2, biases.ndim == 1]
        if not all(fits) or weights.shape != labels.shape or 0 in (*labels.shape, *outer.shape):
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        if inner.shape != (len(centers), len(outer)) or outer.shape[1] != len(biases):
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        kinds = [str(array.dtype) for array in (labels, *floats)]
        if kinds != ["int32", *["float32"] * 5]:
            raise ModelFileError(f"arrays have the wrong types: {', '.join(kinds)}")
        if labels.min() < 0 or labels.max() >= len(centers):
            raise ModelFileError("labels point to groups that do not exist")
        if not all(np.isfinite(array).all() for array in floats):
            raise ModelFileError("weights, matrices or biases are not finite")
        return cls(labels, weights, centers, inner, outer, biases, arrays["loss_curve"])

    @property
    def n_features(self) -> int:
        """D."""
        return self.labels.shape[-1]

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Dimensions of each sum."""
        return np.bincount(self.labels.ravel(), minlength=len(self.centers))

    def write(self, rows: RowSource, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of rows."""
        rows.write(self._code, out, block_bounds(rows, n_threads), n_threads=n_threads, verbose=verbose)

    def query_values(self, rows: RowSource, *, n_threads: int = 1, verbose: int = 0) -> Floats:
        """Queries for asymmetric search, (n, n_bits)."""
        margins = self.margins(rows, n_threads=n_threads, verbose=verbose)
        return np.tanh(margins, out=margins)

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        """Code a block of rows, few at a time: sums, products and bits stay in cache."""
        labels, weights, inner, outer = self._parts
        n = min(len(rows), _BLOCK)
        sums = np.empty((n, len(self.centers)), np.float32)
        middle, wide = (np.empty((n, WIDTH * len(part)), np.float32) for part in (inner, outer))
        is_finite = True
        for start in range(0, len(rows), _BLOCK):
            stop = min(start + _BLOCK, len(rows))
            own, few = slice(0, stop - start), slice(start, stop)
            is_finite &= margin_rows(rows[few], labels, weights, self.centers, sums[own])
            multiply(sums[own], inner, middle[own])
            multiply(np.ascontiguousarray(middle[own, : len(self.outer)]), outer, wide[own])
            if out.dtype == np.uint8:
                pack_above(wide[own], self.biases, out[few])
            else:
                np.subtract(wide[own, : self.n_bits], self.biases, out=out[few])
        return is_finite

    @cached_property
    def _parts(self) -> tuple[NDArray[np.uint32], Floats, Floats, Floats]:
        """Labels, weights and matrices as the kernels want them."""
        return self.labels.T.ravel().view(np.uint32), self.weights.T.ravel(), panels(self.inner), panels(self.outer)


def group_columns(labels: NDArray[np.int32], n_groups: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the dimensions of every group: those of group p are ``columns[indptr[p]:indptr[p + 1]]``, ascending.

    labels (D,), or (r, D) where a dimension serves r groups; indptr (n_groups + 1,), columns (D,) or (r * D,) int64.
    """
    n_assign = 1 if labels.ndim == 1 else len(labels)
    flat = labels.T.ravel()  # dimension after dimension
    indptr = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(flat, minlength=n_groups), out=indptr[1:])
    return indptr, np.argsort(flat, kind="stable") // n_assign


def write_bank(
    rows: RowSource,
    labels: NDArray[np.uint32],
    weights: Floats,
    biases: Floats,
    out: NDArray[Any],
    *,
    n_threads: int = 1,
    verbose: int = 0,
) -> None:
    """Write codes (`out` of uint8) or margins (float32); labels and weights (r D,), dimension after dimension."""
    kernel = code_rows if out.dtype == np.uint8 else margin_rows
    rows.write(
        lambda block, part: kernel(block, labels, weights, biases, part),
        out,
        block_bounds(rows, n_threads),
        n_threads=n_threads,
        verbose=verbose,
    )


def block_bounds(rows: RowSource, n_threads: int) -> list[tuple[int, int]]:
    """(start, stop) of the blocks in which rows are coded."""
    n_rows, n_features = rows.shape
    if n_rows * n_features <= SMALL:
        return [(0, n_rows)]
    share = 4 * n_rows * n_features // (2 * n_threads)  # two blocks for each thread, so that none waits long
    as_it_is = rows.array is not None and rows.array.dtype == np.float32  # no copy is made of a block
    return rows.bounds(min(share, _READ_BYTES // n_threads if as_it_is else BLOCK_BYTES))
