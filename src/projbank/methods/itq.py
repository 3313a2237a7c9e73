"""ITQ: principal components rotated so that they lie near the corners of a cube (Gong and Lazebnik, CVPR 2011)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projbank.learn.rotation import learn_rotation
from projbank.methods.base import centred_thresholds, check_memory
from projbank.methods.components import principal_components
from projbank.methods.linear import DenseBits, matrix_bytes
from projbank.methods.pca import components_bytes
from projbank.params import checks, whole
from projbank.progress import progress
from projbank.rows.source import RowSource
from projbank.threads import thread_count


@dataclass(eq=False, repr=False, kw_only=True)
class ITQ(DenseBits):
    """Bit p is 1 iff column p of V R is above 0: V the principal components of x, R a rotation that is learnt.

    Alternately B = sign(V R), and R the rotation that brings V nearest to B (by a singular value decomposition); what
    falls at every step is |B - V R|^2. Where the training data have fewer components than there are bits, R has
    orthonormal rows.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code; "auto" is about D / 16.
    max_iter : int
        Iterations; 50 in the source.
    max_memory : float
        GiB above which fitting refuses to start.

    Attributes
    ----------
    projection_ : (D, n_bits) float32
        Components times rotation.
    thresholds_ : (n_bits,) float32
        The projected mean.
    objective_curve_ : (max_iter + 1,) float64
        |B - V R|^2 per training vector, after each choice of B.
    """

    _arrays = (*DenseBits._arrays, ("objective_curve_", "float64", "*"))
    _checks = checks(max_iter=whole(1))
    max_iter: int = 50
    max_memory: float = 8.0
    objective_curve_: NDArray[np.float64] = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        k = min(n_bits, *X.shape)
        needed = components_bytes(X.shape, n_bits) + matrix_bytes(n_features, n_bits) + 3 * 8 * k * n_bits
        what = f"{n_bits} components of {n_features} dimensions and their rotation"
        check_memory(self, needed, what, self.max_memory)
        components = principal_components(X, means, n_bits, thread_count(self.n_jobs))
        with progress("ITQ", self.max_iter, self.verbose) as advance:
            rotation, self.objective_curve_ = learn_rotation(
                components.coordinates, n_bits, self.max_iter, rng, advance=advance
            )
        self.projection_ = components.directions @ rotation
        self.thresholds_ = centred_thresholds(self._project, means, True, n_bits)
        return n_bits

    def _derive(self) -> None:
        self.n_iter_ = len(self.objective_curve_) - 1
