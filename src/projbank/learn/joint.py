"""The joint learner: all weights together, so that the similarities of whole codes follow those of the data.

For a mini-batch, h = tanh(f / std f + noise) relaxes the bits and S = h h' / d are the similarities of the codes. Noise
of deviation 1/2 (less for short codes) keeps the weights from learning the training vectors by heart. With the target
T of `projbank.learn.target`, minimised is

    1 - corr(S, T) + mean over bits of (mean of h)^2

over the pairs of the batch, by Adam, with hand-written gradients on the coding kernels: coding stays one pass over x.
In a batch vectors come with some of their neighbours (`projbank.learn.batches`).
Where groups are learnt, dimensions that have come to weigh little move to bits that want them more
(`projbank.learn.moving`). Part of the training vectors is held back; the step is shortened, and then learning ends,
when their true codes stop following their target better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.kernels.encode import transposed_product, transposed_rows
from projbank.learn.descent import descend, hold_back
from projbank.learn.grouping import group_rows, resolve_grouping, say_groups
from projbank.learn.learnt_groups import FEWEST, learn_groups
from projbank.learn.loss import NOISE, batch_size
from projbank.learn.moving import Mover
from projbank.learn.run import NEIGHBORS, FromParameters, Run, chosen, lowered
from projbank.learn.target import SimilarityTarget
from projbank.models.bank import Bank, write_bank
from projbank.progress import say
from projbank.rows.source import ArrayRows, RowSource, Statistics
from projbank.rows.views import ScaledRows, unit_scale
from projbank.threads import run_each, split_rows

_RATES, _RATES_ON = (0.06, 0.02), (0.15, 0.04)
"""Steps of Adam: the second when held-back vectors gain no more; and those of a bank that learns on."""
_MOST_ON, _MOVES_ON = 12, (0.4, 7)
"""A bank that learns on: iterations at most; share of the dimensions that may move, and after how many of them."""
_VALUES_PER_BIT = 16
"""Values other than 0 of an average vector that a bit should see where most values are 0."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class JointLearner(FromParameters):
    """Learns all weights of a bank together; parameters as those of `ProjectionBank`."""

    renews: ClassVar[bool] = True

    grouping: str | ArrayLike
    n_assign: int | str
    n_neighbors: int | str
    max_iter: int
    noise: float | str
    standardize: bool
    kmeans_iter: int

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> Bank:
        """Learn groups, weights and biases from rows."""
        n_samples, n_features = rows.shape
        grouping, n_assign = resolve_grouping(self.grouping, self.n_assign, "learnt", n_bits, n_features, run)
        n_neighbors = lowered(
            "n_neighbors", chosen(self.n_neighbors, NEIGHBORS), n_samples - 1, f"there are {n_samples} training vectors"
        )
        scale = unit_scale(rows, self.standardize)
        rows = ScaledRows(rows, scale) if self.standardize else rows
        statistics = rows.statistics()
        if isinstance(self.grouping, str) and self.grouping == "auto" and self.n_assign == "auto":
            n_assign = groups_for_sparse(rows.nonzeros_per_row(), n_bits, n_features)
        target = SimilarityTarget(rows, statistics.means, n_neighbors, n_threads=run.n_threads, verbose=run.verbose)
        if isinstance(run.start, Bank):
            return self._learn_on(run.start, rows, target, scale, run)
        _, free = hold_back(n_samples, run.seed)
        signs = None
        if isinstance(grouping, str) and grouping == "learnt" and len(free) >= FEWEST:
            say(f"learning groups from {len(free)} vectors", run.verbose)
            labels, signs = learn_groups(
                rows, free, target, n_bits=n_bits, n_assign=n_assign, seed=run.seed, n_threads=run.n_threads
            )
            if n_assign == 1:
                labels, signs = labels[0], signs[0]
            say_groups(labels, n_bits, run.verbose)
        else:
            named = "random" if isinstance(grouping, str) and grouping == "learnt" else grouping
            labels = group_rows(named, rows, n_bits, n_assign, self.kmeans_iter, np.random.default_rng(run.seed), run)
        labels, weights, biases, curve = learn(
            rows,
            labels,
            target,
            n_bits=n_bits,
            max_iter=self.max_iter,
            seed=run.seed,
            noise=chosen(self.noise, NOISE),
            signs=signs,
            n_threads=run.n_threads,
            verbose=run.verbose,
        )
        return Bank(labels, np.divide(weights, scale, dtype=np.float32), biases, curve, bends=True)

    def _learn_on(self, start: Bank, rows: RowSource, target: SimilarityTarget, scale: Any, run: Run) -> Bank:
        """Learn on from a bank: its weights begin at the size that those of a new bank have.

        Many dimensions move at first, where groups are learnt and need not stay: the old ones suit the old data.
        """
        weights = np.multiply(start.weights, scale, dtype=np.float32)
        bank = LearntBank(start.labels, weights, rows.statistics(), start.n_bits, run.n_threads)
        bank.weights /= bank.unit
        bank.offsets += start.biases - bank.biases()
        bank.divide_margins(_sizes(bank))
        moves = isinstance(self.grouping, str) and self.grouping in ("auto", "learnt", "soft-learnt") and not run.keep
        share, last = _MOVES_ON
        mover = Mover(bank, *rows.statistics(), last, run.n_threads, share=share) if moves else None
        curve = descend(
            rows,
            bank,
            target,
            _RATES_ON,
            min(self.max_iter, _MOST_ON),
            run.seed,
            np.random.default_rng([run.seed, 1]),
            batch=batch_size(start.n_bits),
            noise=chosen(self.noise, NOISE),
            mover=mover,
            n_threads=run.n_threads,
            verbose=run.verbose,
        )
        weights = bank.unit * bank.weights
        return Bank(bank.labels, np.divide(weights, scale, dtype=np.float32), bank.biases(), curve, bends=True)


def _sizes(bank: LearntBank) -> Floats:
    """Root mean square of the weights of each bit; 1 where all are 0."""
    labels, n_bits = bank.labels.ravel(), len(bank.offsets)
    squares = np.bincount(labels, bank.weights.ravel() ** 2, minlength=n_bits)
    sizes = np.sqrt(squares / np.maximum(1, np.bincount(labels, minlength=n_bits)))
    return np.where(sizes > 0, sizes, 1).astype(np.float32)


def learn(
    rows: RowSource,
    labels: NDArray[np.int32],
    target: SimilarityTarget,
    *,
    n_bits: int,
    max_iter: int,
    seed: int,
    noise: float,
    signs: Floats | None = None,
    n_threads: int = 1,
    verbose: int = 0,
) -> tuple[NDArray[np.int32], Floats, Floats, NDArray[np.float64]]:
    """Learn all weights and biases of a bank together.

    Parameters
    ----------
    rows : (n, D) training data; mini-batches of them are read as they are needed
    labels : (D,) group of each dimension, or (r, D) where a dimension serves r groups
    target : similarities of the training vectors
    n_bits, max_iter, seed, noise : see `ProjectionBank`
    signs : where the weights of learnt groups start, shaped as labels, whose dimensions may then leave them for others
        (`projbank.learn.moving`). Other groups stay as they are and start with random signs

    Returns
    -------
    labels : those given, or where the dimensions have moved to
    weights : float32, shaped as labels; each bit's margins have deviation 1, about
    biases : (n_bits,) float32
    curve : (n_iter + 1,) loss of a batch at the start, then the mean loss of each iteration's batches
    """
    rng = np.random.default_rng([seed, 1])
    statistics = rows.statistics()
    moves = signs is not None
    bank = LearntBank(labels, random_signs(labels, rng) if signs is None else signs, statistics, n_bits, n_threads)
    mover = Mover(bank, *statistics, max_iter, n_threads) if moves else None
    curve = descend(
        rows,
        bank,
        target,
        _RATES,
        max_iter,
        seed,
        rng,
        batch=batch_size(n_bits),
        noise=noise,
        mover=mover,
        n_threads=n_threads,
        verbose=verbose,
    )
    return bank.labels, bank.unit * bank.weights, bank.biases(), curve


def random_signs(labels: NDArray[np.int32], rng: np.random.Generator) -> Floats:
    """Signs for every weight, shaped as labels."""
    return rng.choice(np.array([-1, 1], np.float32), labels.shape)


def groups_for_sparse(nonzeros: float, n_bits: int, n_features: int) -> int:
    """Groups that a dimension should serve where 7 of 8 values of a vector are 0; 1 for other data.

    So many that a bit sees some values other than 0 of an average vector, but never more multiply-adds than dense data
    of the same length cost, `n_features`.
    """
    if 8 * nonzeros >= n_features:
        return 1
    nonzeros = max(nonzeros, 1.0)
    return int(max(1, min(np.ceil(_VALUES_PER_BIT * n_bits / nonzeros), n_features // nonzeros, n_bits - 1)))


class LearntBank:
    """The weights under way: margins of rows, and the gradient from slopes in the margins."""

    def __init__(
        self,
        labels: NDArray[np.int32],
        signs: Floats,
        statistics: Statistics,
        n_bits: int,
        n_threads: int,
    ) -> None:
        self.weights = signs.copy()
        self.offsets = np.zeros(n_bits, np.float32)
        self.unit = np.float32(1.0 / statistics.spread) if statistics.spread > 0 else np.float32(1)
        self._center = statistics.means.astype(np.float32)
        self.labels = labels
        self._n_threads = n_threads
        self._rows = np.empty((0, len(self._center)), np.float32)

    @property
    def labels(self) -> NDArray[np.int32]:
        """Groups of the dimensions; another array may be set, but none may be written to."""
        return self._labels

    @labels.setter
    def labels(self, labels: NDArray[np.int32]) -> None:
        self._labels = labels
        self._flat_labels = labels.T.ravel().view(np.uint32)  # dimension after dimension, as the kernels want them

    def state(self) -> tuple[Floats, Floats, NDArray[np.int32]]:
        return self.weights.copy(), self.offsets.copy(), self._labels

    def restore(self, state: tuple[Floats, Floats, NDArray[np.int32]]) -> None:
        self.weights[:], self.offsets[:], self.labels = state

    def biases(self) -> Floats:
        """Offsets from the margins of the mean vector."""
        at_mean = self.unit * self.weights * self._center
        sums = np.bincount(self._labels.ravel(), at_mean.ravel(), minlength=len(self.offsets))
        return self.offsets + sums.astype(np.float32)

    def margins(self, rows: Floats) -> Floats:
        self._rows = rows
        out = np.empty((len(rows), len(self.offsets)), np.float32)
        weights = (self.unit * self.weights).T.ravel()
        write_bank(ArrayRows(rows), self._flat_labels, weights, self.biases(), out, n_threads=self._n_threads)
        return out

    def divide_margins(self, by: Floats) -> None:
        self.weights /= by[self._labels]
        self.offsets /= by

    def gradient(self, slopes: Floats) -> tuple[Floats, Floats]:
        totals = slopes.sum(axis=0, dtype=np.float64).astype(np.float32)
        return self.unit * (self._transposed(self._rows, slopes) - self._center * totals[self._labels]), -totals

    def _transposed(self, rows: Floats, slopes: Floats) -> Floats:
        """X^T G of the bank, ranges of columns in parallel."""
        planes = np.atleast_2d(self._labels)
        n_assign, n_features = planes.shape
        mostly_zero = n_assign > 1 and 8 * np.count_nonzero(rows[0]) < n_features
        out = np.empty((n_features, n_assign) if mostly_zero else planes.shape, np.float32)

        def multiply(first: int, last: int) -> None:
            if mostly_zero:
                transposed_rows(rows, self._flat_labels, slopes, first, last, out.reshape(-1))
                return
            for plane, sums in zip(planes, out, strict=True):
                transposed_product(rows, plane.view(np.uint32), slopes, first, last, sums)

        width = 8 * -(-n_features // (8 * 2 * self._n_threads))
        run_each(multiply, split_rows(n_features, width), self._n_threads)
        return (out.T if mostly_zero else out).reshape(self._labels.shape)
