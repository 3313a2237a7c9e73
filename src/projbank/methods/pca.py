"""PCA: the coordinates of largest variance, real-valued."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import Floats, Method, check_memory
from projbank.methods.components import principal_components
from projbank.methods.linear import DENSE_ROWS, matrix_bytes
from projbank.rows.source import RowSource
from projbank.threads import thread_count


@dataclass(eq=False, repr=False, kw_only=True)
class PCA(Method):
    """y = W' (x - mean), W the directions of largest variance of the training data.

    Parameters
    ----------
    n_bits : int or "auto"
        Real numbers per code; "auto" is about D / 16. No more exist than training vectors less one and than D: then
        there are fewer (`n_bits_`), with a warning.
    max_memory : float
        GiB above which fitting refuses to start.

    Attributes
    ----------
    directions_ : (D, n_bits_) float32
    offsets_ : (n_bits_,) float32
        The projected mean.
    """

    distance = "l2"
    _block_rows = DENSE_ROWS
    _arrays = (("directions_", "float32", "D d"), ("offsets_", "float32", "d"))
    max_memory: float = 8.0
    directions_: Floats = field(init=False)
    offsets_: Floats = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        check_memory(self, components_bytes(X.shape, n_bits), f"{n_bits} components", self.max_memory)
        self.directions_ = principal_components(X, means, n_bits, thread_count(self.n_jobs)).directions
        found = self.directions_.shape[1]
        if found < n_bits:
            message = f"n_bits={n_bits} is lowered to {found}: the training data have no more components."
            warnings.warn(message, UserWarning, stacklevel=3)
        self.offsets_ = means.astype(np.float32) @ self.directions_
        return found

    def _project(self, rows: Floats) -> Floats:
        values = rows @ self.directions_
        values -= self.offsets_
        return values


def components_bytes(shape: tuple[int, int], n_components: int) -> int:
    """Bytes that `principal_components` needs at most: directions, and the matrix and its eigenvectors."""
    smaller = min(shape)
    return matrix_bytes(shape[1], min(n_components, smaller)) + 2 * 8 * smaller**2
