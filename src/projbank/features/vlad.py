"""VLAD: the sum of what is left of each descriptor when its nearest centre is taken away, per centre."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.blas import kmeans
from projbank.features.encoder import Encoder, nearest
from projbank.kernels.features_encode import sum_by_label
from projbank.models.file import ModelFileError
from projbank.params import check_int


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

    def __init__(
        self,
        n_clusters: int = 250,
        *,
        n_pca: int | None = None,
        alpha: float = 0.5,
        intra: bool = False,
        max_descriptors: int = 250_000,
        max_iter: int = 25,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_pca = n_pca
        self.alpha = alpha
        self.intra = intra
        self.max_descriptors = max_descriptors
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

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
