"""What Fisher vector and VLAD share: bags of descriptors in, PCA, a codebook, power and L2 normalised vectors out."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from projbank.features.images import ListEstimator
from projbank.models.file import ModelFile, ModelFileError
from projbank.params import check_int, check_positive
from projbank.rows.bags import Bags, read_bag, split_bags
from projbank.threads import blas_threads, run_each, split_rows, thread_count

NEAREST_ROWS = 1024
"""Rows whose closeness to all centres is held at a time."""
DESCRIPTORS_PER_ENTRY = 20
"""Descriptors that a Gaussian or centre needs at least, on average, in the largest sample."""
LARGEST = 1e15
"""Squares of larger numbers overflow in float32, on which FAISS's k-means crashes."""


def check_bags(X: Any, n_features: int | None = None) -> list[NDArray[np.float32]]:
    """Return bags of descriptors as a list of (n_i, k) float32 arrays; see `projbank.rows.bags.split_bags`."""
    bags = split_bags(X, n_features)
    return [read_bag(bags, i) for i in range(len(bags))]


@dataclass(eq=False, repr=False, kw_only=True)
class Encoder(ModelFile, ListEstimator):
    """Base of the encoders: a subclass learns a codebook and sums one bag against it."""

    n_pca: int | None = None
    alpha: float = 0.5
    max_descriptors: int = 250_000
    random_state: int | None = 0
    n_jobs: int | None = None

    @abstractmethod
    def _codebook_size(self) -> int:
        """Number of Gaussians or centres asked for, checked."""

    @abstractmethod
    def _learn(self, sample: NDArray[np.float32], seed: int, n_threads: int) -> None:
        """Learn the codebook from a sample of (PCA-reduced) descriptors."""

    @abstractmethod
    def _sums(self, bag: NDArray[np.float32], n_threads: int) -> NDArray[np.floating]:
        """Encode one bag with at least one (PCA-reduced) descriptor, before power and L2 normalisation."""

    @property
    @abstractmethod
    def n_dims_(self) -> int:
        """Dimensions of an encoded vector."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the codebook.

        Parameters
        ----------
        X : (n, k) array, list of (n_i, k) arrays, or (stacked, offsets)
            Descriptors, of which at most `max_descriptors` drawn at random are used.
        y : ignored
        """
        size = self.check_size()
        rng = np.random.default_rng(self.random_state)
        sample = _draw(X, self.max_descriptors, rng)
        if len(sample) < size:
            raise ValueError(
                f"X must hold at least as many descriptors as the codebook has entries, {size}. Got {len(sample)}."
            )
        if max(sample.max(), -sample.min()) > LARGEST:
            raise ValueError(f"X holds descriptors too large to learn from: numbers must not exceed {LARGEST:g}.")
        n_threads = thread_count(self.n_jobs)
        with blas_threads(1):
            self._fit_pca(sample)
            self._learn(self._reduced(sample), int(rng.integers(2**31 - 1)), n_threads)
        return self

    def transform(self, X: Bags) -> NDArray[np.float32]:
        """Encode each bag of descriptors.

        Parameters
        ----------
        X : list of (n_i, k) arrays, or (stacked, offsets)

        Returns
        -------
        (n, D) float32 array of rows of length 1. A bag without descriptors gives a row of zeros and a warning.
        """
        check_is_fitted(self)
        bags = check_bags(X, self.n_features_in_)
        out = np.zeros((len(bags), self.n_dims_), dtype=np.float32)

        full = [(i,) for i in range(len(bags)) if len(bags[i])]
        n_threads = thread_count(self.n_jobs)
        inner = n_threads if len(full) < n_threads else 1  # threads over descriptors where there are too few images

        def work(i: int) -> None:
            sums = self._sums(self._reduced(bags[i]), inner).astype(np.float32, copy=False).ravel()
            out[i] = power_l2(sums, float(self.alpha))

        with blas_threads(1):
            run_each(work, full, n_threads // inner)
        if len(full) < len(bags):
            first = next(i for i in range(len(bags)) if not len(bags[i]))
            warnings.warn(
                f"{len(bags) - len(full)} of {len(bags)} images have no descriptors (first: {first}); "
                "their vectors are zero.",
                stacklevel=2,
            )
        return out

    @property
    def n_features_in_(self) -> int:
        """Dimensions of a descriptor."""
        check_is_fitted(self)
        return int(self.pca_components_.shape[1])

    def check_size(self) -> int:
        """Check the parameters; return how many entries the codebook is to have."""
        size = self._codebook_size()
        if self.n_pca is not None:
            check_int(self, "n_pca", self.n_pca, 1)
        check_positive(self, "alpha", self.alpha)
        check_int(self, "max_descriptors", self.max_descriptors, 1)
        if self.random_state is not None:
            check_int(self, "random_state", self.random_state, 0)
        possible = max(1, self.max_descriptors // DESCRIPTORS_PER_ENTRY)
        if size > possible:
            raise ValueError(
                f"A codebook learnt from at most {self.max_descriptors} descriptors carries {possible} entries "
                f"({DESCRIPTORS_PER_ENTRY} descriptors each). Got {size}."
            )
        return size

    def _fit_pca(self, sample: NDArray[np.float32]) -> None:
        """Learn the PCA; without one, `pca_components_` has no rows and only tells the width of descriptors."""
        width = sample.shape[1]
        if self.n_pca is None:
            self.pca_mean_ = np.zeros(width, dtype=np.float32)
            self.pca_components_ = np.zeros((0, width), dtype=np.float32)
            return
        from sklearn.decomposition import PCA

        n_pca = check_int(self, "n_pca", self.n_pca, 1, min(sample.shape))
        pca = PCA(n_pca, svd_solver="covariance_eigh").fit(sample.astype(np.float64))
        self.pca_mean_ = pca.mean_.astype(np.float32)
        self.pca_components_ = np.ascontiguousarray(pca.components_, dtype=np.float32)

    def _reduced(self, descriptors: NDArray[np.float32]) -> NDArray[np.float32]:
        if not len(self.pca_components_):
            return descriptors
        return np.asarray((descriptors - self.pca_mean_) @ self.pca_components_.T, dtype=np.float32)

    def _n_reduced(self) -> int:
        return len(self.pca_components_) or int(self.pca_components_.shape[1])

    def _check_loaded(self) -> None:
        if self.pca_components_.ndim != 2 or self.pca_mean_.shape != self.pca_components_.shape[1:]:
            raise ModelFileError("the PCA's mean and components do not fit each other")


def nearest(X: NDArray[np.float32], centres: NDArray[np.floating], n_threads: int = 1) -> NDArray[np.int64]:
    """Index of the nearest centre of each row, the smaller index on a tie."""
    centres = np.asarray(centres, dtype=np.float32)
    half_norms = 0.5 * (centres**2).sum(axis=1)
    labels = np.empty(len(X), dtype=np.int64)

    def work(start: int, stop: int) -> None:
        closeness = X[start:stop] @ centres.T
        closeness -= half_norms
        labels[start:stop] = closeness.argmax(axis=1)

    run_each(work, split_rows(len(X), NEAREST_ROWS), n_threads)
    return labels


def power_l2(sums: NDArray[np.float32], alpha: float) -> NDArray[np.float32]:
    """Sign-preserving power, then length 1; zeros stay zeros."""
    if alpha == 0.5:
        powered = np.sqrt(np.abs(sums))
    elif alpha == 1:
        powered = np.abs(sums)
    else:
        powered = np.abs(sums) ** np.float32(alpha)
    np.copysign(powered, sums, out=powered)
    length = np.sqrt(np.dot(powered, powered))
    if not np.isfinite(length):
        raise ValueError("X holds descriptors too large to be encoded in float32.")
    if length > 0:
        powered /= length
    return powered


def _draw(X: Any, limit: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """At most `limit` rows of all descriptors, without replacement, in order."""
    bags = check_bags([X] if isinstance(X, np.ndarray) and X.ndim == 2 else X)
    if not bags:
        raise ValueError("X must hold at least one array of descriptors. Got none.")
    total = sum(map(len, bags))
    if total <= limit:
        return np.concatenate(bags)
    chosen = np.sort(rng.choice(total, limit, replace=False))
    ends = np.cumsum([len(bag) for bag in bags])
    cuts = np.searchsorted(chosen, ends)
    parts, start = [], 0
    for bag, end, stop in zip(bags, ends, cuts, strict=True):
        parts.append(bag[chosen[start:stop] - (end - len(bag))])
        start = stop
    return np.concatenate(parts)
