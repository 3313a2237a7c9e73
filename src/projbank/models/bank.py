"""The linear bank: any kind of rows to packed bits or margins, in one pass over each row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.kernels.encode import code_rows, margin_rows
from projbank.models.file import ModelFileError
from projbank.models.model import Floats, Model
from projbank.rows.source import BLOCK_BYTES, RowSource

_READ_BYTES = 128 << 20
"""Bytes of a mapped file that all threads together look at before its memory is let go."""
SMALL = 1 << 24
"""Numbers below which rows are coded at once: starting threads would cost more than it wins."""


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
