"""Mercer kernels on groups of dimensions: how columns are scaled, and a basis in the blocks that the kernels read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.mercer_groups import local_squares, local_values
from projbank.kernels.mercer_values import LANES, arrange_basis, gather_groups, kernel_margins, kernel_matrix
from projbank.models.bank import group_columns

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
        rises = fits and (self.indptr[1:] > self.indptr[:-1]).all()  # differences could overflow
        return bool(rises and self.columns.min() >= 0 and self.columns.max() < n_features)

    def own(self, p: int) -> slice:
        """Where the columns of group p stand in the gathered order."""
        return slice(int(self.indptr[p]), int(self.indptr[p + 1]))

    def part(self, first: int, last: int) -> Groups:
        """The groups first to last - 1 alone."""
        start, stop = self.indptr[first], self.indptr[last]
        return Groups(self.indptr[first : last + 1] - start, self.columns[start:stop])


@dataclass(frozen=True)
class Scaling:
    """How gathered columns are brought to the form that the kernels of `mercer_values` take.

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

    def gather(self, X: Floats, groups: Groups, out: Floats, *, tile: int) -> bool:
        """Write the scaled columns of a block of rows to `out` (rows, m); False where they have a NaN or infinity.

        The order is that of `mercer_values.gather_groups` with that `tile`.
        """
        return bool(gather_groups(X, groups.indptr, groups.columns, self.factor, self.shift, tile, out))

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


@dataclass(frozen=True)
class PairwiseRadial:
    """exp(-|x - y|^2 / sigma^2) with a width of each pair, sigma = factor (s(x) + s(y)) / 2 (Bai et al. 2010).

    s is the mean distance to the `n_neighbors` nearest basis samples, in the group's own dimensions. This is no Mercer
    kernel in general, though its values look like one's.
    """

    n_neighbors: int
    factor: float

    def matrix(self, samples: Floats, out: Floats) -> Floats:
        """Write the values between samples (n, m) to `out` (n, n); returns s of each, (n,)."""
        widths = np.empty(len(samples), np.float32)
        k = min(self.n_neighbors, len(samples) - 1)
        local_squares(samples, np.ascontiguousarray(samples.T), k, True, out, widths)
        local_values(out, widths, widths, self.factor)
        return widths

    def values(self, rows: Floats, basis: Floats, widths: Floats) -> Floats:
        """Values between rows (n, m) and basis samples (L, m) of given s."""
        out, own = np.empty((len(rows), len(basis)), np.float32), np.empty(len(rows), np.float32)
        k = min(self.n_neighbors, len(basis))
        local_squares(np.ascontiguousarray(rows), np.ascontiguousarray(basis.T), k, False, out, own)
        local_values(out, own, widths, self.factor)
        return out


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

    def matrix(self, U: Floats, p: int, out: Floats) -> None:
        """Write the kernel values of group p to `out` (rows, n); a polynomial kernel's constant is left out.

        U (rows, m): scaled columns in their plain order.
        """
        kernel_matrix(U, *self._arrays, p, self.n, out)


Form = Scaling | PairwiseRadial | KernelFunction


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
