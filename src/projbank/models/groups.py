"""Groups of dimensions as lists of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def group_columns(labels: NDArray[np.int32], n_groups: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the dimensions of every group: those of group p are ``columns[indptr[p]:indptr[p + 1]]``, ascending.

    Parameters
    ----------
    labels : (D,), or (r, D) where a dimension serves r groups
    n_groups : number of groups

    Returns
    -------
    indptr : (n_groups + 1,) int64
    columns : (D,) or (r * D,) int64
    """
    n_assign = 1 if labels.ndim == 1 else len(labels)
    flat = labels.T.ravel()  # dimension after dimension
    indptr = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(flat, minlength=n_groups), out=indptr[1:])
    return indptr, np.argsort(flat, kind="stable") // n_assign


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
