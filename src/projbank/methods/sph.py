"""SpH: Spectral Hashing, eigenfunctions of a box around the principal components (Weiss, Torralba, Fergus 2008)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import Floats, Method, check_indices, check_memory
from projbank.methods.components import principal_components
from projbank.methods.linear import DENSE_ROWS
from projbank.methods.pca import components_bytes
from projbank.models.file import ModelFileError
from projbank.rows.source import RowSource
from projbank.threads import thread_count


@dataclass(eq=False, repr=False, kw_only=True)
class SpectralHashing(Method):
    """Bit p is 1 iff cos(m pi (v - a) / (b - a)) is above 0: v a principal component with the range [a, b], m a mode.

    Of all components and modes the `n_bits` pairs with the smallest m / (b - a) are taken. Only components that a pair
    uses are kept.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code; "auto" is about D / 16.
    max_memory : float
        GiB above which fitting refuses to start.

    Attributes
    ----------
    directions_ : (D, components) float32
    starts_ : (components,) float32
        a, as a projection of vectors that are not centred.
    ranges_ : (components,) float32
        b - a.
    modes_ : (n_bits, 2) int64
        Component and mode m of each bit.
    thresholds_ : (n_bits,) float32
        Zeros.
    """

    _block_rows = DENSE_ROWS
    _arrays = (
        ("directions_", "float32", "D *"),
        ("starts_", "float32", "*"),
        ("ranges_", "float32", "*"),
        ("modes_", "int64", "d *"),
        ("thresholds_", "float32", "d"),
    )
    _not_for_coding = ("thresholds_",)
    max_memory: float = 8.0
    directions_: Floats = field(init=False)
    starts_: Floats = field(init=False)
    ranges_: Floats = field(init=False)
    modes_: NDArray[np.int64] = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        check_memory(self, components_bytes(X.shape, n_bits), f"{n_bits} components", self.max_memory)
        directions, coordinates = principal_components(X, means, n_bits, thread_count(self.n_jobs))
        low, high = coordinates.min(axis=0), coordinates.max(axis=0)
        ranges = np.where(high > low, high - low, np.float32(1))
        modes = smallest_modes(ranges, n_bits)
        used, modes[:, 0] = np.unique(modes[:, 0], return_inverse=True)
        self.directions_ = np.ascontiguousarray(directions[:, used])
        self.starts_ = means.astype(np.float32) @ self.directions_ + low[used]
        self.ranges_ = ranges[used]
        self.modes_ = modes
        self.thresholds_ = np.zeros(n_bits, np.float32)
        return n_bits

    def _check_arrays(self) -> None:
        if self.modes_.shape[1] != 2 or not self.starts_.shape == self.ranges_.shape == self.directions_.shape[1:]:
            raise ModelFileError("directions, ranges and modes do not fit each other")
        check_indices("modes_", self.modes_[:, 0], len(self.ranges_))

    def _derive(self) -> None:
        self._rates = (np.pi * self.modes_[:, 1] / self.ranges_[self.modes_[:, 0]]).astype(np.float32)

    def _project(self, rows: Floats) -> Floats:
        components = rows @ self.directions_
        components -= self.starts_
        values = components.take(self.modes_[:, 0], axis=1)
        values *= self._rates
        with np.errstate(invalid="ignore"):  # bad values are told later
            return np.cos(values, out=values)


def smallest_modes(ranges: Floats, n_bits: int) -> NDArray[np.int64]:
    """Pairs (component, mode), (n_bits, 2), of the smallest eigenvalues (mode / range)^2; ties to earlier components.

    The widest component alone has `n_bits` modes up to n_bits / max(ranges), so none above that is looked at.
    """
    widths = ranges.astype(np.float64)
    counts = np.ceil(n_bits * widths / widths.max()).astype(np.int64)
    components = np.repeat(np.arange(len(widths)), counts)
    modes = np.arange(len(components)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    order = np.argsort(modes / widths[components], kind="stable")[:n_bits]
    return np.column_stack([components[order], modes[order]])
