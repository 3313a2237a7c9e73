"""The paper's learner: adaptive gradient descent (AGD) on the pair hinge, each group for itself (equations 4 to 9).

For group p with weights w and bias b, f_i = w . x_i - b, and over all N^2 ordered pairs

    L(w, b) = 1/2 (|w|^2 + b^2) + lam * sum_ij max(0, 1 - l_ij f_i f_j).

The steps are taken in centred and scaled coordinates: x is measured from its mean, and the unit of a step is the
inverse of the loss's curvature in w and in b. That changes neither L nor its minima, only how far "step 1" goes
(docs/paper.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.kernels.pairs import GROUPS, gather_columns, pair_hinge, project_groups, project_slopes
from projbank.learn.grouping import GroupLearner
from projbank.learn.neighbors import neighbor_graph
from projbank.learn.run import Run, neighbor_count
from projbank.models.bank import Bank
from projbank.progress import progress
from projbank.rows.source import RowSource
from projbank.rows.views import RepeatedRows, standardised
from projbank.threads import run_all, run_each, split_rows

CHUNK_BYTES = 1 << 30
TILE = 4 * GROUPS
"""Groups learnt together: enough that lots stay full while groups stop one by one."""

_POWER_STEPS = 6
_SCALES = np.array([0.25, 0.35, 0.5, 0.7, 1.0, 1.4])
"""Root mean squares of the margins at which a starting direction is tried."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class PairHinge:
    """The pair loss of a tile of groups, and its gradient in the centred coordinates.

    `dims` (m, n) float32: centred training data, dimension after dimension; `firsts` (T,): where the dimensions of each
    group begin in it; `starts` (T + 1,): where its weights begin; `means`: what was subtracted, one for each weight;
    `indptr` and `indices`: the positive pairs.
    """

    dims: Floats
    firsts: NDArray[np.int64]
    starts: NDArray[np.int64]
    means: NDArray[np.float64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    lam: float

    @property
    def n_samples(self) -> int:
        """N."""
        return self.dims.shape[1]

    @property
    def n_groups(self) -> int:
        """T."""
        return len(self.firsts)

    @property
    def group_of(self) -> NDArray[np.int64]:
        """The group of every weight."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.starts))

    def sum_by_group(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """(T,) sums over the dimensions of each group; no group is empty."""
        return np.add.reduceat(values, self.starts[:-1], dtype=np.float64)

    @property
    def blocks(self) -> list[Floats]:
        """Views of `dims`, one for each group."""
        sizes = np.diff(self.starts)
        return [self.dims[first : first + size] for first, size in zip(self.firsts, sizes, strict=True)]

    def part(self, going: NDArray[np.bool_]) -> Self:
        """The loss of some of the groups; no data are copied."""
        starts = np.concatenate([[0], np.cumsum(np.diff(self.starts)[going])])
        return replace(self, firsts=self.firsts[going], starts=starts, means=self.means[going[self.group_of]])

    def margins(self, weights: Floats, offsets: Floats) -> Floats:
        """(T, N) margins w . (x - mean) - offset."""
        F = np.empty((self.n_groups, self.n_samples), np.float32)
        project_groups(self.dims, self.firsts, self.starts, weights, offsets, F)
        return F

    def hinge(self, F: Floats) -> tuple[NDArray[np.float64], Floats, NDArray[np.int64]]:
        """Sum of hinges per group, its gradient in F, and how many hinges sit exactly at 0."""
        G = np.empty_like(F)
        losses, kinks = np.empty(self.n_groups), np.empty(self.n_groups, np.int64)
        pair_hinge(F, self.indptr, self.indices, G, losses, kinks)
        return losses, G, kinks

    def biases(self, weights: Floats, offsets: Floats) -> NDArray[np.float64]:
        """Biases b of the uncentred form: w . x - b = w . (x - mean) - offset."""
        return offsets + self.sum_by_group(weights * self.means)

    def penalties(self, weights: Floats, offsets: Floats, F: Floats) -> NDArray[np.float64]:
        """Regulariser 1/2 (|w|^2 + b^2) of every group; F are the margins, for those that can use them."""
        return 0.5 * (self.sum_by_group(weights.astype(np.float64) ** 2) + self.biases(weights, offsets) ** 2)

    def varied(self) -> NDArray[np.bool_]:
        """Which weights belong to dimensions that are not constant."""
        return np.concatenate([block.any(axis=1) for block in self.blocks])

    def variances(self) -> NDArray[np.float64]:
        """(T,) variance of each group's data, summed over its dimensions."""
        squares = [np.einsum("ij,ij->", block, block, dtype=np.float64) for block in self.blocks]
        return np.array(squares) / self.n_samples

    def evaluate(
        self, weights: Floats, offsets: Floats
    ) -> tuple[NDArray[np.float64], Floats, Floats, NDArray[np.int64]]:
        """Loss L of every group, its slopes in weights and offsets, and the number of hinges at 0."""
        F = self.margins(weights, offsets)
        hinges, G, kinks = self.hinge(F)
        weight_slopes, bias_slopes = self._pull_back(G)
        biases = self.biases(weights, offsets)
        losses = self.penalties(weights, offsets, F) + self.lam * hinges
        total_weight_slopes = self.lam * weight_slopes + weights + biases[self.group_of] * self.means
        total_bias_slopes = self.lam * bias_slopes + biases
        return losses, total_weight_slopes.astype(np.float32), total_bias_slopes.astype(np.float32), kinks

    def direction(self, weights: Floats) -> Floats:
        """Where the loss falls fastest near w = 0, where all hinges are active and the loss is quadratic."""
        F = self.margins(weights, np.zeros(self.n_groups, np.float32))
        F /= np.maximum(1e3 * np.abs(F).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        _, G, _ = self.hinge(F)
        return -self._pull_back(G)[0]

    def _pull_back(self, G: Floats) -> tuple[Floats, Floats]:
        weight_slopes = np.empty(len(self.means), np.float32)
        bias_slopes = np.empty(self.n_groups, np.float32)
        project_slopes(self.dims, self.firsts, self.starts, G, weight_slopes, bias_slopes)
        return weight_slopes, bias_slopes


@dataclass(frozen=True)
class HingeLearner(GroupLearner):
    """A learner that descends on pair hinges; parameters as those of the estimators."""

    n_neighbors: int | str
    lam: float
    max_iter: int
    tol: float
    init: str


@dataclass(frozen=True)
class PaperLearner(HingeLearner):
    """Learns each bit for itself by the pair hinge; parameters as those of `ProjectionBank`."""

    standardize: bool

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> Bank:
        """Group the dimensions, then learn every group's weights and bias."""
        n_samples, n_features = rows.shape
        grouping, n_assign = self.resolved(n_bits, n_features, run)
        n_neighbors = neighbor_count(self.n_neighbors, n_samples)
        rows, scale = standardised(rows, self.standardize)
        means = rows.statistics().means
        labels = self.group_rows(grouping, rows, n_bits, n_assign, run)
        graph = neighbor_graph(rows, n_neighbors, means, n_threads=run.n_threads, verbose=run.verbose)
        if labels.ndim == 2:
            rows, means = RepeatedRows(rows, len(labels)), np.tile(means, len(labels))
        weights, biases, curves = self.learn_groups(rows, labels.ravel(), graph, means, n_bits, run)
        weights = np.divide(weights.reshape(labels.shape), scale, dtype=np.float32)
        return Bank(labels, weights, biases, curves.mean(axis=0))

    def learn_groups(
        self,
        rows: RowSource,
        labels: NDArray[np.int32],
        positives: sp.csr_array,
        means: NDArray[np.float64],
        n_bits: int,
        run: Run,
    ) -> tuple[Floats, Floats, NDArray[np.float64]]:
        """Learn every group's weights (D,) and bias; groups are learnt in tiles of 64, tiles in parallel.

        rows (n, D) are read in blocks, once for every GiB of them; labels (D,): group of each dimension; positives
        (n, n): pairs as `projbank.learn.neighbors.positive_pairs` gives them. The curves (n_bits, n_iter + 1) are the
        loss per pair, L / (lam n^2), after each step until the last group has stopped.
        """
        n_samples, n_features = rows.shape
        order = np.argsort(labels, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_bits))])
        indptr, indices = positives.indptr.astype(np.int64), positives.indices.astype(np.int32)
        weights = np.empty(n_features, np.float32)
        biases = np.empty(n_bits, np.float32)
        curves = np.empty((n_bits, self.max_iter + 1))

        with progress("learning the groups", n_bits, run.verbose) as advance:
            for tiles in _chunks(starts, n_bits, n_samples):
                first, last = starts[tiles[0][0]], starts[tiles[-1][1]]
                dims = _dimensions(rows, order[first:last], means, run.n_threads)

                def solve(p: int, q: int, dims: Floats = dims, first: int = first) -> int:
                    own = order[starts[p] : starts[q]]
                    tile = dims[starts[p] - first : starts[q] - first]
                    own_starts = starts[p : q + 1] - starts[p]
                    loss = PairHinge(tile, own_starts[:-1], own_starts, means[own], indptr, indices, self.lam)
                    rng = np.random.default_rng([run.seed, p])
                    weights[own], biases[p:q], curves[p:q] = descend(loss, self.init, self.max_iter, self.tol, rng)
                    return q - p

                for done in run_all(solve, tiles, run.n_threads):
                    advance(done)
        return weights, biases, trimmed(curves)


def trimmed(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Loss curves (d, steps) up to the last step that changed any of them, one step at least."""
    changes = np.flatnonzero((np.diff(curves, axis=1) != 0).any(axis=0))
    return curves[:, : changes[-1] + 2 if len(changes) else 2]


def descend(
    loss: PairHinge, init: str, max_iter: int, tol: float, rng: np.random.Generator
) -> tuple[Floats, Floats, NDArray[np.float64]]:
    """AGD on all groups of a tile at once: step 1, times 1.2 after a decrease, halved (and not taken) otherwise.

    A group stops once its loss per pair changes by less than `tol`; the others go on without it.
    """
    weight_unit, offset_unit = _step_units(loss)
    weights, offsets = start(loss, init, rng)
    losses, weight_slopes, offset_slopes, kinks = loss.evaluate(weights, offsets)
    steps = np.ones(loss.n_groups)
    going = np.ones(loss.n_groups, bool)
    curves = np.empty((max_iter + 1, loss.n_groups))
    curves[0] = losses
    pair_scale = loss.lam * loss.n_samples**2
    for t in range(1, max_iter + 1):
        if not going.any():
            curves[t:] = losses
            break
        part, dims = loss.part(going), np.flatnonzero(going[loss.group_of])
        group_of = part.group_of
        trial = (weights[dims] - (steps * weight_unit)[going][group_of] * weight_slopes[dims]).astype(np.float32)
        trial += _nudge(trial, kinks[going] > 0, group_of, rng)
        trial_offsets = (offsets - steps * offset_unit * offset_slopes)[going].astype(np.float32)
        new, new_weight_slopes, new_offset_slopes, new_kinks = part.evaluate(trial, trial_offsets)
        falls = losses[going] - new
        better = falls >= 0
        taken, own = np.flatnonzero(going)[better], better[group_of]
        weights[dims[own]], weight_slopes[dims[own]] = trial[own], new_weight_slopes[own]
        offsets[taken], offset_slopes[taken] = trial_offsets[better], new_offset_slopes[better]
        losses[taken], kinks[taken] = new[better], new_kinks[better]
        steps[going] *= np.where(better, 1.2, 0.5)
        going[going] = np.abs(falls) >= tol * pair_scale
        curves[t] = losses
    return weights, loss.biases(weights, offsets).astype(np.float32), curves.T / pair_scale


def start(loss: PairHinge, init: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Starting weights and offsets, at the scale where the loss is least.

    "leading": the direction in which the loss falls most near w = 0 (power iteration), or equal weights where those
    start lower; "equal": equal weights; "random": Gaussian ones.
    """
    equal = loss.varied().astype(np.float32)
    offsets = np.zeros(loss.n_groups, np.float32)
    if init == "random":
        return _best_scale(loss, equal * rng.standard_normal(len(equal), dtype=np.float32))[0], offsets
    weights, losses = _best_scale(loss, equal)
    if init == "equal":
        return weights, offsets
    leading = equal * (1 + 0.1 * rng.standard_normal(len(equal), dtype=np.float32))
    for _ in range(_POWER_STEPS):
        leading = _normalised(loss, loss.direction(leading))
    leading, leading_losses = _best_scale(loss, leading)
    return np.where((leading_losses < losses)[loss.group_of], leading, weights), offsets


def _best_scale(loss: PairHinge, weights: Floats) -> tuple[Floats, NDArray[np.float64]]:
    """Scale each group's weights so that its loss is least over a grid of scales; returns weights and losses."""
    offsets = np.zeros(loss.n_groups, np.float32)
    F = loss.margins(weights, offsets)
    spread = np.sqrt(np.einsum("ij,ij->i", F, F, dtype=np.float64) / loss.n_samples)
    weights = (weights / np.where(spread > 0, spread, 1.0)[loss.group_of]).astype(np.float32)
    F = loss.margins(weights, offsets)
    penalties = loss.penalties(weights, offsets, F)
    losses = np.array([scale**2 * penalties + loss.lam * loss.hinge(np.float32(scale) * F)[0] for scale in _SCALES])
    best = np.argmin(losses, axis=0)
    return (weights * _SCALES[best][loss.group_of]).astype(np.float32), losses.min(axis=0)


def _normalised(loss: PairHinge, weights: Floats) -> Floats:
    norms = np.sqrt(loss.sum_by_group(weights.astype(np.float64) ** 2))
    return (weights / np.where(norms > 0, norms, 1.0)[loss.group_of]).astype(np.float32)


def _step_units(loss: PairHinge) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Inverse curvatures of the loss near 0: 4 lam n (positives per sample) variance in w, 2 lam n^2 in the offset."""
    n = loss.n_samples
    degree = len(loss.indices) / n
    curvature = 1.0 + 4.0 * loss.lam * n * degree * loss.variances()
    return 1.0 / curvature, np.full(loss.n_groups, 1.0 / (1.0 + 2.0 * loss.lam * n**2))


def _nudge(
    weights: Floats, at_kink: NDArray[np.bool_], group_of: NDArray[np.int64], rng: np.random.Generator
) -> Floats | np.float32:
    """A small random vector for groups where some hinge sits exactly at 0, where the loss has no gradient."""
    if not at_kink.any():
        return np.float32(0)
    noise = 1e-4 * np.abs(weights) * rng.standard_normal(len(weights), dtype=np.float32)
    return np.where(at_kink[group_of], noise, 0).astype(np.float32)


def _chunks(starts: NDArray[np.int64], n_bits: int, n_samples: int) -> list[list[tuple[int, int]]]:
    """Tiles of groups (p, q), in chunks whose training data take about a GiB, so that X is read few times."""
    chunks: list[list[tuple[int, int]]] = []
    size = np.inf
    for p, q in split_rows(n_bits, TILE):
        tile_bytes = 4 * n_samples * (starts[q] - starts[p])
        if size + tile_bytes > CHUNK_BYTES:
            chunks.append([])
            size = 0
        chunks[-1].append((p, q))
        size += tile_bytes
    return chunks


def _dimensions(rows: RowSource, columns: NDArray[np.int64], means: NDArray[np.float64], n_threads: int) -> Floats:
    """(m, n) centred values of the given columns, dimension after dimension."""
    dims = np.empty((len(columns), rows.shape[0]), np.float32)
    centers = means[columns].astype(np.float32)

    def gather(first: int, last: int) -> None:
        gather_columns(rows.block(first, last), columns, dims, first)

    def center(first: int, last: int) -> None:
        dims[first:last] -= centers[first:last, None]

    run_each(gather, rows.bounds(), n_threads)
    run_each(center, split_rows(len(columns), 256), n_threads)
    return dims
