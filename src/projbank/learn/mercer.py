"""KBPB's learner: the paper's pair hinge on kernel expansions, each group for itself.

For group p, g(x) = sum_i a_i k(x_i, x) - b over n basis samples, b such that the mean of g over them is 0, and over all
n^2 ordered pairs of basis samples

    L(a) = 1/2 a' K a + lam * sum_ij max(0, 1 - l_ij g_i g_j).

With mu_i the mean of k(x_i, .) over the basis, g_j = a . (k_j - mu): the linear learner's margins on the vectors k_j,
so its pair sums and its descent serve here too. The gradient is taken in the kernel's own space, where the regulariser
is the squared length: there it is a + lam (G - mean G) with G = dH/dg, and the paper's gradient is K times it. That
changes neither L nor its minima; it spares a product with K per step and the square of K's condition
(docs/paper.md).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.kernels.mercer_groups import center_matrix, mean_neighbor_distance, multiply_symmetric
from projbank.kernels.pairs import GROUPS
from projbank.learn.landmarks import with_landmarks
from projbank.learn.neighbors import neighbor_graph
from projbank.learn.pair_hinge import PairHinge, Point
from projbank.learn.paper import TILE, Descents, HingeLearner
from projbank.learn.run import Run, lowered, neighbor_count
from projbank.models.mercer import Basis, Form, Groups, KernelFunction, PairwiseRadial, Scaling, call_kernel
from projbank.models.mercer_bank import MercerBank
from projbank.progress import progress
from projbank.rows.source import RowSource
from projbank.threads import run_each, split_rows

TILE_BYTES = 256 << 20
"""Kernel matrices that a thread holds at a time."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class KernelHinge(PairHinge):
    """The pair loss of a tile of kernel groups; the "weights" of a group are its coefficients a.

    `dims`: upper halves of the kernel matrices (n, n), group after group, centred in rows and columns; `means`: the
    means of their rows, mu. Kernels are given without the constant `constant`, which g does not feel and the
    regulariser does; `peaks` (T,): how large the values k - mu are at most.
    """

    constant: float
    peaks: NDArray[np.float64]

    @classmethod
    def of(
        cls, matrices: Floats, constant: float, indptr: NDArray[np.int64], indices: NDArray[np.int32], lam: float
    ) -> KernelHinge:
        """The loss of kernel matrices (T, n, n), which are centred in place."""
        n_groups, n, _ = matrices.shape
        means = np.empty((n_groups, n))
        peaks = np.array([center_matrix(K, mu) for K, mu in zip(matrices, means, strict=True)])
        starts = n * np.arange(n_groups + 1)
        return cls(matrices.reshape(-1, n), starts[:-1], starts, means.ravel(), indptr, indices, lam, constant, peaks)

    def part(self, going: NDArray[np.bool_]) -> Self:
        """The loss of some of the groups; no data are copied."""
        return replace(super().part(going), peaks=self.peaks[going])

    def margins(self, weights: Floats, offsets: Floats) -> Floats:
        """(T, n) margins a . (k - mu); a group that K maps to nothing but rounding errors has margins 0.

        So has one whose kernel varies by less than float32 coefficients can make up for.
        """
        coefficients, means = weights.reshape(self.n_groups, -1), self.means.reshape(self.n_groups, -1)
        F = np.empty((self.n_groups, self.n_samples), np.float32)
        multiply_symmetric(self.dims, self.firsts, coefficients, F)
        totals = coefficients.sum(axis=1, dtype=np.float64, keepdims=True)  # what centred columns have taken away
        F += totals * (means - means.mean(axis=1, keepdims=True)) - offsets[:, None]
        noise = np.where(self.peaks > 1e-18, 2 * np.finfo(np.float32).eps * self.peaks, 1e30)[:, None]
        bounds = np.abs(coefficients).sum(axis=1, keepdims=True) * noise
        F *= np.abs(F).max(axis=1, keepdims=True) > bounds
        return F

    def penalties(self, weights: Floats, offsets: Floats, F: Floats) -> NDArray[np.float64]:
        """Regulariser 1/2 a' K a: K a are the margins plus the bias."""
        values = F + self.biases(weights, offsets)[:, None]
        coefficients = weights.reshape(values.shape).astype(np.float64)
        squares = np.einsum("ti,ti->t", coefficients, values) + self.constant * coefficients.sum(axis=1) ** 2
        return 0.5 * squares

    def varied(self) -> NDArray[np.bool_]:
        """All coefficients of a group whose kernel is not constant over the basis."""
        return np.repeat(self.variances() > 0, self.n_samples)

    def variances(self) -> NDArray[np.float64]:
        """(T,) variance of the samples in the kernel's space: the mean of k(x, x) less the mean of all k."""
        return np.array([max(K.diagonal().mean(dtype=np.float64), 0.0) for K in self.blocks])

    def evaluate(self, weights: Floats, offsets: Floats) -> Point:
        """Loss L of every group, its slopes in the kernel's space, 0 for the offsets, and the number of hinges at 0."""
        F = self.margins(weights, offsets)
        hinges, G, kinks = self.hinge(F)
        slopes, zeros = self._pull_back(G)
        losses = self.penalties(weights, offsets, F) + self.lam * hinges
        return Point(weights, offsets, losses, weights + np.float32(self.lam) * slopes, zeros, kinks)

    def _pull_back(self, G: Floats) -> tuple[Floats, Floats]:
        """Chain rule in the kernel's space: sum_j G_j (phi_j - mean phi) has the coefficients G - mean G."""
        centered = G - G.mean(axis=1, dtype=np.float64, keepdims=True)
        return centered.ravel().astype(np.float32), np.zeros(self.n_groups, np.float32)


@dataclass(frozen=True)
class MercerLearner(HingeLearner):
    """Learns each bit for itself on basis samples; parameters as those of `KernelProjectionBank`."""

    kernel: str | KernelFunction
    n_basis: int
    degree: int
    gamma: str | float
    sigma: str | float
    sigma_neighbors: int
    sigma_factor: float
    n_landmarks: int | None
    landmark_width: float

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> MercerBank:
        """Group the dimensions, draw the basis, and learn every group's coefficients."""
        n_samples, n_features = rows.shape
        grouping, n_assign = self.resolved(n_bits, n_features, run)
        n_neighbors = neighbor_count(self.n_neighbors, n_samples)
        n_basis = lowered("n_basis", self.n_basis, n_samples, f"there are {n_samples} training vectors")
        rng = np.random.default_rng(run.seed)
        means = rows.statistics().means
        labels = self.group_rows(grouping, rows, n_bits, n_assign, run, rng)
        groups = Groups.from_labels(labels, n_bits)
        drawn = np.sort(rng.choice(n_samples, n_basis, replace=False))
        basis, center = rows.read(drawn), means.astype(np.float32)
        model = MercerBank(
            kernel=self.kernel,
            degree=self.degree,
            indptr=groups.indptr,
            columns=groups.columns,
            basis=basis,
            landmarks=np.empty((0, 0), np.float32),
            coefficients=np.empty((n_bits, 0), np.float32),
            biases=np.empty(0, np.float32),
            scales=self._scales(basis, groups, run.n_threads),
            means=center,
            sigma_neighbors=self.sigma_neighbors,
            sigma_factor=self.sigma_factor,
        )
        graph = neighbor_graph(rows, n_neighbors, means, n_threads=run.n_threads, verbose=run.verbose)
        graph = graph[drawn][:, drawn]
        graph.sort_indices()
        coefficients, biases, curves = self.learn_groups(basis, groups, graph, model.form, run)
        model = replace(model, coefficients=coefficients, biases=biases, loss_curve=curves.mean(axis=0))
        return model if self.n_landmarks is None else with_landmarks(model, self.n_landmarks, self.landmark_width, run)

    def learn_groups(
        self, rows: Floats, groups: Groups, positives: sp.csr_array, form: Form, run: Run
    ) -> tuple[Floats, Floats, NDArray[np.float64]]:
        """Learn every group's coefficients (d, n) and bias; groups are learnt in tiles of up to 64, in parallel.

        rows (n, D) are the basis samples; positives (n, n): pairs among them; form: scaling of a built-in kernel, one
        with widths of pairs, or a kernel function. The curves (d, n_iter + 1) are the loss per pair, L / (lam n^2),
        after each step until the last group has stopped.
        """
        n_samples, n_groups = len(rows), len(groups)
        indptr, indices = positives.indptr.astype(np.int64), positives.indices.astype(np.int32)
        constant = form.constant if isinstance(form, Scaling) else 0.0
        found = Descents(n_samples * np.arange(n_groups + 1), self.max_iter)
        tile = int(np.clip(TILE_BYTES // (4 * n_samples**2), 1, TILE))
        memory = threading.local()  # each thread fills the same matrices again: new ones cost as much as their content

        def loss_of(p: int, q: int) -> KernelHinge:
            part = groups.part(p, q)
            own = form.part(slice(groups.indptr[p], groups.indptr[q])) if isinstance(form, Scaling) else form
            values = rows[:, part.columns]
            if not hasattr(memory, "matrices"):
                memory.matrices = np.empty((tile, n_samples, n_samples), np.float32)
            matrices = memory.matrices[: q - p]
            for t in range(q - p):
                kernel_matrix(values, part, t, own, matrices[t])
            return KernelHinge.of(matrices, constant, indptr, indices, self.lam)

        with progress("learning the groups", n_groups, run.verbose) as advance:
            for done in self.descend_tiles(split_rows(n_groups, tile), loss_of, found, run):
                advance(done)
        return found.weights.reshape(n_groups, n_samples), found.biases, found.trimmed

    def _scales(self, basis: Floats, groups: Groups, n_threads: int) -> Floats:
        """Widths of the RBF kernel, (d, n) of the samples where each pair has its own; gammas of a polynomial one."""
        if self.kernel == "rbf" and self.sigma == "pairwise":
            form, out = PairwiseRadial(self.sigma_neighbors, self.sigma_factor), np.empty((len(basis),) * 2, np.float32)
            columns = [groups.columns[groups.own(p)] for p in range(len(groups))]
            return np.stack([form.matrix(np.ascontiguousarray(basis[:, own]), out) for own in columns])
        scales = np.ones(len(groups), np.float32)
        if self.kernel == "rbf" and isinstance(self.sigma, str):
            return adaptive_sigmas(basis, groups, self.sigma_neighbors, self.sigma_factor, n_threads=n_threads)
        if self.kernel == "poly" and isinstance(self.gamma, str):
            return scale_gammas(basis, groups)
        if self.kernel in ("rbf", "poly"):
            scales[:] = self.sigma if self.kernel == "rbf" else self.gamma
        return scales


def adaptive_sigmas(
    rows: Floats, groups: Groups, n_neighbors: int, factor: float, n_threads: int = 1
) -> NDArray[np.float32]:
    """Widths (d,) of the RBF kernel: `factor` times the mean distance to the nearest neighbours in a group's columns.

    Where that is 0 (most samples have equals) the root mean square distance of all pairs stands in, and 1 where all
    samples are equal, for which no width matters. (Bai et al. 2010)
    """
    sigmas = np.empty(len(groups), np.float32)
    k = min(n_neighbors, len(rows) - 1)

    def measure(first: int, last: int) -> None:
        for p in range(first, last):
            values = np.ascontiguousarray(rows[:, groups.columns[groups.own(p)]].T)
            width = mean_neighbor_distance(values, k)
            if width == 0:
                width = float(np.sqrt(2 * values.var(axis=1, dtype=np.float64).sum()))
            tiny = np.finfo(np.float32).tiny * 1e6
            sigmas[p] = factor * width if factor * width > tiny else 1.0

    run_each(measure, split_rows(len(groups), GROUPS), n_threads)
    return sigmas


def scale_gammas(rows: Floats, groups: Groups) -> NDArray[np.float32]:
    """(d,) inverse mean squared lengths of the basis samples in each group's columns; 1 where those are 0."""
    squares = np.einsum("ij,ij->j", rows, rows, dtype=np.float64) / len(rows)
    lengths = np.add.reduceat(squares[groups.columns], groups.indptr[:-1])
    return (1.0 / np.where(lengths > 1e-30, lengths, 1.0)).astype(np.float32)


def kernel_matrix(values: Floats, groups: Groups, p: int, form: Form, out: Floats) -> None:
    """Write the kernel values between basis samples in group p to `out` (n, n).

    `values` (n, m) are the gathered columns of all groups.
    """
    own = np.ascontiguousarray(values[:, groups.own(p)])
    if isinstance(form, PairwiseRadial):
        form.matrix(own, out)
        return
    if not isinstance(form, Scaling):
        out[:] = call_kernel(form, own, own, p)
        _check_mercer(out, p)
        return
    scaling = form.part(groups.own(p))
    Basis(groups.part(p, p + 1), scaling, own).matrix(scaling.scaled(own), 0, out)


def _check_mercer(K: Floats, p: int) -> None:
    """Refuse a kernel matrix that is not symmetric, or whose first 128 samples have a clearly negative eigenvalue."""
    size = max(float(np.abs(K).max()), float(np.finfo(np.float32).tiny))
    if np.abs(K - K.T).max() > 1e-3 * size:
        raise ValueError(f"The 'kernel' function must be symmetric. Got k(x, y) != k(y, x) in group {p}.")
    eigenvalues = np.linalg.eigvalsh(K[:128, :128].astype(np.float64))
    if eigenvalues[0] < -1e-3 * size:
        raise ValueError(
            f"The 'kernel' function must satisfy Mercer's condition. Got eigenvalue {eigenvalues[0]:g} in group {p}."
        )
