"""ITQ: principal components rotated near the corners of a cube (Gong and Lazebnik, CVPR 2011); of parts; of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.covariance import ledoit_wolf

from projbank.learn.grouping import group_dimensions
from projbank.learn.rotation import learn_rotation
from projbank.methods.base import Floats, Iterative, Method, centred_thresholds, check_indices, check_memory, learnt
from projbank.methods.components import components_bytes, principal_components
from projbank.methods.dense import DenseBits, matrix_bytes
from projbank.models.file import ModelFileError
from projbank.params import check_labels, checks, whole
from projbank.progress import progress
from projbank.rows.source import ArrayRows, RowSource
from projbank.threads import thread_count


@dataclass(eq=False, repr=False, kw_only=True)
class ITQ(Iterative, DenseBits):
    """Bit p is 1 iff column p of V R is above 0: V the principal components of x, R a rotation that is learnt.

    Alternately B = sign(V R), and R the rotation that brings V nearest to B (by a singular value decomposition); what
    falls at every step is |B - V R|^2. Where the training data have fewer components than there are bits, R has
    orthonormal rows.

    Parameters
    ----------
    max_iter : int
        Iterations; 50 in the source.

    Attributes
    ----------
    projection_ : (D, n_bits) float32
        Components times rotation.
    thresholds_ : (n_bits,) float32
        The projected mean.
    objective_curve_ : (max_iter + 1,) float64
        |B - V R|^2 per training vector, after each choice of B.
    """

    _checks = checks(max_iter=whole(1))
    max_iter: int = 50
    max_memory: float = 8.0

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        k = min(n_bits, *X.shape)
        needed = components_bytes(X.shape, n_bits) + matrix_bytes(n_features, n_bits) + 3 * 8 * k * n_bits
        what = f"{n_bits} components of {n_features} dimensions and their rotation"
        check_memory(self, needed, what)
        components = principal_components(X, means, n_bits, thread_count(self.n_jobs))
        with progress("ITQ", self.max_iter, self.verbose) as advance:
            rotation, self.objective_curve_ = learn_rotation(
                components.coordinates, n_bits, self.max_iter, rng, advance=advance
            )
        self.projection_ = components.directions @ rotation
        self.thresholds_ = centred_thresholds(self._project, means, True, n_bits)
        return n_bits


@dataclass(eq=False, repr=False, kw_only=True)
class DiscriminantITQ(DenseBits):
    """ITQ of linear discriminants, of which there is one fewer than classes; without labels, of the components.

    Discriminants are the directions in which the means of classes differ most, in units of how much vectors differ
    within a class. They are looked for among principal components. The covariance within classes is shrunk towards a
    multiple of the unit matrix (Ledoit and Wolf, 2004).

    Parameters
    ----------
    n_components : int
        Principal components, at most one for every two training vectors.
    max_iter : int
        Iterations of ITQ.

    Attributes
    ----------
    projection_ : (D, n_bits) float32
    thresholds_ : (n_bits,) float32
        The projected mean.
    """

    _checks = checks(n_components=whole(1), max_iter=whole(1))
    learns_labels: ClassVar[bool] = True
    n_components: int = 256
    max_iter: int = 50
    max_memory: float = 8.0

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn from X, as any method, and from y: (n,) labels, whole numbers (-1 where unknown) or texts."""
        return self._fit(X, y=y)

    def _train(
        self,
        X: RowSource,
        means: NDArray[np.float64],
        n_bits: int,
        rng: np.random.Generator,
        y: ArrayLike | None = None,
    ) -> int:
        labels = np.full(X.shape[0], -1) if y is None else check_labels(self, y, X.shape[0])
        n_components = max(1, min(self.n_components, X.shape[0] // 2))
        needed = components_bytes(X.shape, n_components) + matrix_bytes(X.shape[1], n_bits)
        check_memory(self, needed, f"{n_components} components and {n_bits} bits")
        directions, values = principal_components(X, means, n_components, thread_count(self.n_jobs))
        turns = discriminants(values[labels != -1], labels[labels != -1])
        if turns.shape[1]:
            directions, values = directions @ turns, values @ turns
        size = np.sqrt(np.mean(values**2))
        rotation, _ = learn_rotation(values / (size if size > 0 else 1), n_bits, self.max_iter, rng)
        self.projection_ = directions @ rotation
        self.thresholds_ = centred_thresholds(self._project, means, True, n_bits)
        return n_bits


def discriminants(values: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return the linear discriminants of labelled vectors (n, k), (k, c): the classes less one, or fewer."""
    classes, own, counts = np.unique(labels, return_inverse=True, return_counts=True)
    n_found = min(len(classes) - 1, values.shape[1])
    if n_found < 1:
        return np.empty((values.shape[1], 0), np.float32)
    means = np.zeros((len(classes), values.shape[1]))
    np.add.at(means, own, values)
    means /= counts[:, None]
    within = ledoit_wolf(values - means[own], assume_centered=True)[0]
    within[np.diag_indices_from(within)] += max(1e-6 * float(np.mean(values.astype(np.float64) ** 2)), 1e-30)
    apart = (means - np.average(means, axis=0, weights=counts)) * np.sqrt(counts / len(own))[:, None]
    k = values.shape[1]
    return scipy.linalg.eigh(apart.T @ apart, within, subset_by_index=(k - n_found, k - 1))[1].astype(np.float32)


@dataclass(eq=False, repr=False, kw_only=True)
class KMeansITQ(Iterative, Method):
    """Each subspace of similar dimensions gives its own ITQ code of `bits_per_group` bits.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code; "auto" is about D / 16. They are shared out as evenly as whole groups allow.
    bits_per_group : int
        Bits of a subspace; 20 in the paper. Groups may have fewer dimensions than bits: their rotation is then not
        square, as in `ITQ`.
    max_iter : int
        Iterations of ITQ.
    kmeans_iter : int
        Iterations of k-means.

    Attributes
    ----------
    labels_ : (D,) int32
        Group of each dimension.
    weights_ : (D, widest group's bits) float32
        Row j: weights of dimension j in the bits of its group.
    group_bits_ : (groups,) int64
        Bits of each group; those of group 0 come first.
    thresholds_ : (n_bits,) float32
    objective_curve_ : (max_iter + 1,) float64
        Sum over groups of |B - V R|^2 per training vector.
    """

    _checks = checks(bits_per_group=whole(1), max_iter=whole(1), kmeans_iter=whole(1))
    bits_per_group: int = 20
    max_iter: int = 50
    kmeans_iter: int = 20
    labels_: NDArray[np.int32] = learnt("int32", "D")
    weights_: Floats = learnt("float32", "D *")
    group_bits_: NDArray[np.int64] = learnt("int64", "*")
    thresholds_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        n_groups = min(-(-n_bits // self.bits_per_group), n_features)
        n_threads = thread_count(self.n_jobs)
        self.labels_ = group_dimensions(
            "kmeans", X, n_groups, rng, kmeans_iter=self.kmeans_iter, n_threads=n_threads, verbose=self.verbose
        )
        self.group_bits_ = np.diff(np.arange(n_groups + 1) * n_bits // n_groups).astype(np.int64)
        self.weights_ = np.zeros((n_features, int(self.group_bits_.max())), np.float32)
        curves = np.zeros(self.max_iter + 1)
        with progress("ITQ of the groups", n_groups, self.verbose) as advance:
            for group, bits in enumerate(self.group_bits_):
                own = np.flatnonzero(self.labels_ == group)
                components = principal_components(ArrayRows(_columns(X, own)), means[own], int(bits))
                rotation, curve = learn_rotation(components.coordinates, int(bits), self.max_iter, rng)
                self.weights_[own, :bits] = components.directions @ rotation
                curves += curve
                advance(1)
        self.objective_curve_ = curves
        self._derive()
        self.thresholds_ = centred_thresholds(self._project, means, True, n_bits)
        return n_bits

    def _check_arrays(self) -> None:
        check_indices("labels_", self.labels_, len(self.group_bits_))
        check_indices("group_bits_", self.group_bits_, 1 + self.weights_.shape[1])
        if self.group_bits_.sum() != self.n_bits_:
            raise ModelFileError("group_bits_ do not add up to the length of the code")

    def _derive(self) -> None:
        self._order = np.argsort(self.labels_, kind="stable")
        self._ends = np.cumsum(np.bincount(self.labels_, minlength=len(self.group_bits_)))
        self._sorted_weights = self.weights_[self._order]

    def _project(self, rows: Floats) -> Floats:
        sorted_rows = rows.take(self._order, axis=1)
        values = np.empty((len(rows), int(self.group_bits_.sum())), np.float32)
        first, column = 0, 0
        for end, bits in zip(self._ends.tolist(), self.group_bits_.tolist(), strict=True):
            weights = self._sorted_weights[first:end, :bits]
            np.matmul(sorted_rows[:, first:end], weights, out=values[:, column : column + bits])
            first, column = end, column + bits
        return values


def _columns(X: RowSource, columns: NDArray[np.integer]) -> Floats:
    """Some columns of all rows, (n, len(columns)) float32."""
    out = np.empty((X.shape[0], len(columns)), np.float32)
    for start, stop in X.bounds():
        out[start:stop] = X.block(start, stop)[:, columns]
    return out
