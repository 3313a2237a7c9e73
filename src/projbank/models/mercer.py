"""Coding with a kernel bank: groups of columns, their basis and coefficients, and rows to margins or bits in blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.mercer_values import (
    LANES,
    arrange_basis,
    gather_groups,
    kernel_margins,
    kernel_matrix,
    kernel_slopes,
)
from projbank.kernels.pack import pack_above
from projbank.learn.grouping import group_columns
from projbank.progress import progress
from projbank.rows.source import check_finite, read_rows, release_pages
from projbank.threads import run_all, split_rows

_BLOCK_ROWS = 128
"""Rows that are coded together: their columns are gathered once, and each group's basis serves all of them."""
TILE = 32
"""Groups whose columns stand together when rows are coded, so that they fit in the second-level cache."""

Floats = NDArray[np.float32]
KernelFunction = Callable[[Floats, Floats], Any]


@dataclass(frozen=True)
class Groups:
    """Columns of each group, group after group; a column may stand in several groups.

    indptr (d + 1,) int64: where each group begins; columns (m,) int32.
    """

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]

    @classmethod
    def from_labels(cls, labels: NDArray[np.int32], n_groups: int) -> Groups:
        """Groups by labels in [0, n_groups): (D,), or (r, D) where a column serves r groups."""
        indptr, columns = group_columns(labels, n_groups)
        return cls(indptr, columns.astype(np.int32))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(d,) number of columns of each group."""
        return np.diff(self.indptr)

    def are_valid(self, n_groups: int, n_features: int) -> bool:
        """Whether there are so many groups, none of them empty, of columns that exist."""
        fits = self.indptr.shape == (n_groups + 1,) and self.indptr[0] == 0 and self.indptr[-1] == len(self.columns)
        return bool(fits and self.sizes.min() > 0 and self.columns.min() >= 0 and self.columns.max() < n_features)

    def own(self, p: int) -> slice:
        """Where the columns of group p stand in the gathered order."""
        return slice(int(self.indptr[p]), int(self.indptr[p + 1]))

    def part(self, first: int, last: int) -> Groups:
        """The groups first to last - 1 alone."""
        start, stop = self.indptr[first], self.indptr[last]
        return Groups(self.indptr[first : last + 1] - start, self.columns[start:stop])


@dataclass(frozen=True)
class Scaling:
    """How gathered columns are brought to the form that the kernels of `kernel_values` take.

    degree: 0 for RBF, t for the polynomial (gamma x . y + 1)^t, of which the compiled kernels leave out the `constant`
    1; columns are multiplied by `factor` (m,), sqrt(2 log2 e) / sigma for RBF and sqrt(gamma) for polynomials, and
    `shift` (m,) is subtracted.
    """

    degree: int
    factor: Floats
    shift: Floats
    constant: float = 0.0

    @classmethod
    def radial(cls, groups: Groups, sigmas: NDArray[np.floating], means: NDArray[np.floating]) -> Scaling:
        """exp(-|x - y|^2 / sigma^2), with columns measured from their means, which costs no digits."""
        factor = np.repeat(np.sqrt(2 * np.log2(np.e)) / sigmas, groups.sizes)
        return cls(0, factor.astype(np.float32), (factor * means[groups.columns]).astype(np.float32))

    @classmethod
    def polynomial(cls, groups: Groups, gammas: NDArray[np.floating], degree: int) -> Scaling:
        """(gamma x . y + 1)^degree."""
        factor = np.repeat(np.sqrt(gammas), groups.sizes).astype(np.float32)
        return cls(degree, factor, np.zeros_like(factor), 1.0)

    @classmethod
    def linear(cls, groups: Groups) -> Scaling:
        """The plain inner product."""
        return cls(1, np.ones(len(groups.columns), np.float32), np.zeros(len(groups.columns), np.float32))

    def gather(self, X: Floats, groups: Groups, out: Floats, *, tile: int, first_row: int = 0) -> None:
        """Write the scaled columns of a block of rows to `out` (rows, m); raises for the first NaN or infinity.

        The order is that of `kernel_values.gather_groups` with that `tile`.
        """
        if not gather_groups(X, groups.indptr, groups.columns, self.factor, self.shift, tile, out):
            check_finite(X, first_row)

    def scaled(self, values: Floats) -> Floats:
        """Values (n, m) in gathered columns, scaled by the same operations."""
        m = values.shape[1]
        U = np.empty(values.shape, np.float32)
        everything = Groups(np.array([0, m]), np.arange(m, dtype=np.int32))
        self.gather(values, everything, U, tile=1)
        return U

    def part(self, columns: slice) -> Scaling:
        """The scaling of some of the gathered columns."""
        return Scaling(self.degree, self.factor[columns], self.shift[columns], self.constant)


class Basis:
    """Basis vectors of all groups, scaled, in the blocks that the kernels read.

    Built from gathered (not yet scaled) values of shape (n, m). Padded with vectors that no coefficient uses.
    """

    def __init__(self, groups: Groups, scaling: Scaling, values: Floats) -> None:
        self.groups, self.scaling = groups, scaling
        self.n = len(values)
        self.n_pad = -(-self.n // LANES) * LANES
        self.blocks = np.empty(self.n_pad * len(groups.columns), np.float32)
        self.halves = np.empty(self.n_pad * len(groups), np.float32)
        arrange_basis(scaling.scaled(values), groups.indptr, scaling.degree, self.blocks, self.halves)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.groups.indptr, self.blocks, self.halves, self.scaling.degree

    def margins(self, U: Floats, coefficients: Floats, biases: Floats, out: Floats, *, tile: int) -> None:
        """out[i, p] = coefficients[p] . k(u_i, basis) - biases[p]; coefficients (d, n_pad), U gathered with `tile`."""
        kernel_margins(U, *self._arrays, coefficients, biases, tile, out)

    def padded(self, coefficients: Floats) -> Floats:
        """(d, n_pad) coefficients with zeros for the vectors that fill the last block."""
        padded = np.zeros((len(self.groups), self.n_pad), np.float32)
        padded[:, : self.n] = coefficients
        return padded

    def slopes(self, U: Floats, slopes: Floats, out: Floats, *, tile: int) -> None:
        """out[p] = sum over rows of slopes[i, p] * k(u_i, basis), (d, n_pad): the chain rule of `margins`."""
        kernel_slopes(U, *self._arrays, slopes, tile, 0, len(self.groups), out)

    def matrix(self, U: Floats, p: int, out: Floats) -> None:
        """Write the kernel values of group p to `out` (rows, n); a polynomial kernel's constant is left out.

        U (rows, m): scaled columns in their plain order.
        """
        kernel_matrix(U, *self._arrays, p, self.n, out)


class KernelBank:
    """A fitted kernel bank as coding wants it.

    groups; values (n, m): basis in gathered columns; coefficients (d, n); biases (d,); form: the
    scaling of a built-in kernel, or a kernel function.
    """

    def __init__(
        self,
        groups: Groups,
        values: Floats,
        coefficients: Floats,
        biases: Floats,
        form: Scaling | KernelFunction,
    ) -> None:
        self.groups, self.biases = groups, biases
        self._coder: _ScaledCoder | _CallableCoder
        if isinstance(form, Scaling):
            self._coder = _ScaledCoder(groups, values, coefficients, biases, form)
        else:
            self._coder = _CallableCoder(groups, values, coefficients, biases, form)

    def write(self, X: Any, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of X into an array, which may be a memory map.

        Rows are taken 128 at a time, so memory does not grow with them. A row gets the same bits in any block.
        """
        n_rows = X.shape[0]
        zeros = np.zeros(len(self.biases), np.float32)
        rows_per_block = min(_BLOCK_ROWS, max(4, -(-n_rows // n_threads)))
        memory = threading.local()  # of each thread: new memory would cost as much as coding with few landmarks

        def code(start: int, stop: int) -> int:
            if not hasattr(memory, "columns"):
                memory.columns = np.empty((min(rows_per_block, n_rows), len(self.groups.columns)), np.float32)
                memory.margins = np.empty((min(rows_per_block, n_rows), len(self.biases)), np.float32)
            F = memory.margins[: stop - start]
            rows = read_rows(X, start, stop)
            self._coder.margins(rows, start, memory.columns[: stop - start], F)
            release_pages(rows)
            if out.dtype == np.uint8:
                pack_above(F, zeros, out[start:stop])
            else:
                out[start:stop] = F
            return stop - start

        with progress("coding", n_rows, verbose) as advance:
            for done in run_all(code, split_rows(n_rows, rows_per_block), n_threads):
                advance(done)


class _ScaledCoder:
    """Margins by the compiled kernels."""

    def __init__(self, groups: Groups, values: Floats, coefficients: Floats, biases: Floats, scaling: Scaling) -> None:
        self._basis = Basis(groups, scaling, values)
        self._coefficients = self._basis.padded(coefficients)
        self._biases = biases

    def margins(self, rows: Floats, first_row: int, columns: Floats, out: Floats) -> None:
        self._basis.scaling.gather(rows, self._basis.groups, columns, tile=TILE, first_row=first_row)
        self._basis.margins(columns, self._coefficients, self._biases, out, tile=TILE)


class _CallableCoder:
    """Margins by a kernel function that the user gave, group by group."""

    def __init__(
        self, groups: Groups, values: Floats, coefficients: Floats, biases: Floats, kernel: KernelFunction
    ) -> None:
        self._groups, self._values, self._kernel = groups, values, kernel
        self._coefficients, self._biases = coefficients, biases

    def margins(self, rows: Floats, first_row: int, columns: Floats, out: Floats) -> None:
        check_finite(rows, first_row)
        np.take(rows, self._groups.columns, axis=1, out=columns)
        for p in range(len(self._groups)):
            own = self._groups.own(p)
            left = np.ascontiguousarray(columns[:, own])
            K = call_kernel(self._kernel, left, np.ascontiguousarray(self._values[:, own]), p)
            sums = np.einsum("ij,j->i", K, self._coefficients[p], dtype=np.float64)  # row by row, in any block
            out[:, p] = sums - self._biases[p]


def call_kernel(kernel: KernelFunction, left: Floats, right: Floats, p: int) -> Floats:
    """Values of the user's kernel function for group p, checked."""
    K = np.asarray(kernel(left, right))
    expected = len(left), len(right)
    if K.shape != expected:
        raise ValueError(
            f"The 'kernel' function must give an array of shape {expected} for arguments of shapes {left.shape} and "
            f"{right.shape}. Got shape {K.shape}."
        )
    if K.dtype.kind not in "fiu":
        raise ValueError(f"The 'kernel' function must give real numbers. Got dtype {K.dtype}.")
    with np.errstate(over="ignore"):
        K = np.ascontiguousarray(K, dtype=np.float32)
    if not np.isfinite(K).all():
        row, column = np.argwhere(~np.isfinite(K))[0]
        raise ValueError(
            f"The 'kernel' function must give finite numbers. Got NaN or infinity in group {p}, at row {row}, "
            f"column {column}."
        )
    return K
