"""Fisher vector and VLAD: sums over the descriptors of an image, by Gaussians or by nearest centres."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projbank.features.encoder import Encoder, nearest
from projbank.features.gmm import DiagonalMixture, fit_mixture
from projbank.kernels.features import sum_by_label
from projbank.models.file import ModelFileError
from projbank.params import check_int
from projbank.threads import kmeans

KMEANS_STEPS = 15


@dataclass(eq=False, repr=False, kw_only=True)
class FisherVector(Encoder):
    """Improved Fisher vector (Perronnin et al. 2010): 2 * K * k dimensions, all means first, then all variances.

    Parameters
    ----------
    n_components : int, default 250
        Number K of Gaussians, with diagonal covariances.
    n_pca : int or None, default None
        Reduce descriptors to so many principal components first.
    alpha : float, default 0.5
        Power that each number is raised to, keeping its sign, before the vector gets length 1; 1 leaves it as it is.
    max_descriptors : int, default 250_000
        Descriptors drawn from those given to `fit`.
    max_iter : int, default 30
        Steps of EM at most, after a start by k-means.
    random_state : int or None, default 0
        Seed of the draw and of k-means.
    n_jobs : int or None, default None
        Threads; None is all cores. The result does not depend on it.

    Attributes
    ----------
    weights_ : (K,), means_ : (K, k), variances_ : (K, k), float32
    n_dims_ : int, 2 * K * k

    Examples
    --------
    >>> import numpy as np
    >>> bags = [np.random.default_rng(i).normal(size=(50, 8)) for i in range(20)]
    >>> FisherVector(4).fit(bags).transform(bags).shape
    (20, 64)
    """

    _saved_arrays = ("weights_", "means_", "variances_", "pca_mean_", "pca_components_")

    n_components: int = field(default=250, kw_only=False)
    max_iter: int = 30

    @property
    def n_dims_(self) -> int:
        """Dimensions of a Fisher vector."""
        return 2 * int(self.means_.size)

    def _codebook_size(self) -> int:
        check_int(self, "max_iter", self.max_iter, 1)
        return check_int(self, "n_components", self.n_components, 1)

    def _learn(self, sample: NDArray[np.float32], seed: int, n_threads: int) -> None:
        centres = kmeans(sample, self.n_components, seed, KMEANS_STEPS)
        fitted = fit_mixture(sample, centres, max_iter=self.max_iter, n_threads=n_threads)
        self.weights_ = fitted.weights.astype(np.float32)
        self.means_ = fitted.means.astype(np.float32)
        self.variances_ = fitted.variances.astype(np.float32)
        self._prepare()

    def _prepare(self) -> None:
        """Derive what encoding needs from the saved arrays, so that a loaded model gives the same bits."""
        self._mixture = DiagonalMixture(self.weights_, self.means_, self.variances_)
        deviations = np.sqrt(self._mixture.variances)
        self._mean_scale = (1 / (np.sqrt(self._mixture.weights)[:, None] * deviations)).astype(np.float32)
        self._variance_scale = (1 / (np.sqrt(2 * self._mixture.weights)[:, None] * self._mixture.variances)).astype(
            np.float32
        )
        self._means = self._mixture.means.astype(np.float32)

    def _sums(self, bag: NDArray[np.float32], n_threads: int) -> NDArray[np.floating]:
        """Gradients of the log-likelihood for means and variances, scaled by the Fisher information's diagonal."""
        total = self._mixture.statistics(bag, n_threads)
        mass = total.mass[:, None]
        moved = self._means * mass
        out = np.empty((2, *self.means_.shape), dtype=np.float32)
        np.subtract(total.first, moved, out=out[0])
        # sum of g * ((x - m)^2 - v) = second - m * (2 * first - m * mass) - v * mass
        np.subtract(total.second, self._means * (total.first + out[0]), out=out[1])
        out[1] -= self.variances_ * mass
        out[0] *= self._mean_scale
        out[1] *= self._variance_scale
        out /= len(bag)
        return out

    def _check_loaded(self) -> None:
        super()._check_loaded()
        shape = (len(self.weights_), self._n_reduced())
        if self.weights_.ndim != 1 or self.means_.shape != shape or self.variances_.shape != shape:
            raise ModelFileError("weights, means and variances do not fit each other")
        if not (self.variances_ > 0).all() or not (self.weights_ > 0).all():
            raise ModelFileError("weights and variances must be above 0")
        self._prepare()


@dataclass(eq=False, repr=False, kw_only=True)
class VLAD(Encoder):
    """Vector of locally aggregated descriptors (Jegou et al. 2010): K * k dimensions, centre by centre.

    Parameters
    ----------
    n_clusters : int, default 250
        Number K of centres.
    n_pca : int or None, default None
        Reduce descriptors to so many principal components first.
    alpha : float, default 0.5
        Power that each number is raised to, keeping its sign, before the vector gets length 1; 1 leaves it as it is.
    intra : bool, default False
        Give each centre's part length 1 first (Arandjelovic and Zisserman 2013, who then leave out the power).
    max_descriptors : int, default 250_000
        Descriptors drawn from those given to `fit`.
    max_iter : int, default 25
        Steps of k-means.
    random_state : int or None, default 0
        Seed of the draw and of k-means.
    n_jobs : int or None, default None
        Threads; None is all cores. The result does not depend on it.

    Attributes
    ----------
    centres_ : (K, k) float32
    n_dims_ : int, K * k

    Examples
    --------
    >>> import numpy as np
    >>> bags = [np.random.default_rng(i).normal(size=(50, 8)) for i in range(20)]
    >>> VLAD(4).fit(bags).transform(bags).shape
    (20, 32)
    """

    _saved_arrays = ("centres_", "pca_mean_", "pca_components_")

    n_clusters: int = field(default=250, kw_only=False)
    intra: bool = False
    max_iter: int = 25

    @property
    def n_dims_(self) -> int:
        """Dimensions of a VLAD vector."""
        return int(self.centres_.size)

    def _codebook_size(self) -> int:
        check_int(self, "max_iter", self.max_iter, 1)
        return check_int(self, "n_clusters", self.n_clusters, 1)

    def _learn(self, sample: NDArray[np.float32], seed: int, n_threads: int) -> None:
        self.centres_ = kmeans(sample, self.n_clusters, seed, self.max_iter)

    def _sums(self, bag: NDArray[np.float32], n_threads: int) -> NDArray[np.floating]:
        sums = np.zeros_like(self.centres_)
        counts = np.zeros(len(sums), dtype=np.int64)
        sum_by_label(bag, nearest(bag, self.centres_, n_threads), sums, counts)
        sums -= counts[:, None].astype(np.float32) * self.centres_
        if self.intra:
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            sums /= np.where(lengths > 0, lengths, 1)
        return sums

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.centres_.ndim != 2 or self.centres_.shape[1] != self._n_reduced():
            raise ModelFileError("centres do not fit the descriptors' width")
