"""The paper's learner: max-margin weights on groups of dimensions, by `pair_hinge` (equations 4 to 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.kernels.pairs import GROUPS, gather_columns
from projbank.learn.grouping import GroupLearner
from projbank.learn.neighbors import neighbor_graph
from projbank.learn.pair_hinge import Floats, PairHinge, descend
from projbank.learn.run import Run, neighbor_count
from projbank.models.bank import Bank
from projbank.progress import progress
from projbank.rows.source import RowSource
from projbank.rows.views import RepeatedRows, standardised
from projbank.threads import run_all, run_each, split_rows

CHUNK_BYTES = 1 << 30
TILE = 4 * GROUPS
"""Groups learnt together: enough that lots stay full while groups stop one by one."""


class Descents:
    """Where all groups end: weights, group after group (`starts`, (d + 1,)), biases and loss curves; filled later."""

    def __init__(self, starts: NDArray[np.int64], max_iter: int) -> None:
        n_groups = len(starts) - 1
        self.starts, self.weights = starts, np.empty(starts[-1], np.float32)
        self.biases, self.curves = np.empty(n_groups, np.float32), np.empty((n_groups, max_iter + 1))

    @property
    def trimmed(self) -> NDArray[np.float64]:
        """Loss curves up to the last step that changed any of them, one step at least."""
        changes = np.flatnonzero((np.diff(self.curves, axis=1) != 0).any(axis=0))
        return self.curves[:, : changes[-1] + 2 if len(changes) else 2]


@dataclass(frozen=True)
class HingeLearner(GroupLearner):
    """A learner that descends on pair hinges; parameters as those of the estimators."""

    n_neighbors: int | str
    lam: float
    max_iter: int
    tol: float
    init: str

    def descend_tiles(
        self, tiles: list[tuple[int, int]], loss_of: Callable[[int, int], PairHinge], found: Descents, run: Run
    ) -> Iterator[int]:
        """Learn the groups p to q - 1 of each tile by the loss of the tile, tiles in parallel; gives their numbers."""

        def solve(p: int, q: int) -> int:
            rng, own = np.random.default_rng([run.seed, p]), slice(found.starts[p], found.starts[q])
            learnt = descend(loss_of(p, q), self.init, self.max_iter, self.tol, rng)
            found.weights[own], found.biases[p:q], found.curves[p:q] = learnt
            return q - p

        return run_all(solve, tiles, run.n_threads)


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
        order = np.argsort(labels, kind="stable")
        found = Descents(np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_bits))]), self.max_iter)
        indptr, indices = positives.indptr.astype(np.int64), positives.indices.astype(np.int32)

        with progress("learning the groups", n_bits, run.verbose) as advance:
            for tiles in _chunks(found.starts, n_bits, rows.shape[0]):
                first, last = found.starts[tiles[0][0]], found.starts[tiles[-1][1]]
                dims = _dimensions(rows, order[first:last], means, run.n_threads)

                def loss_of(p: int, q: int, dims: Floats = dims, first: int = first) -> PairHinge:
                    starts = found.starts[p : q + 1]
                    own, local = order[starts[0] : starts[-1]], starts - starts[0]
                    tile = dims[starts[0] - first : starts[-1] - first]
                    return PairHinge(tile, local[:-1], local, means[own], indptr, indices, self.lam)

                for done in self.descend_tiles(tiles, loss_of, found, run):
                    advance(done)
        weights = np.empty_like(found.weights)
        weights[order] = found.weights
        return weights, found.biases, found.trimmed


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
