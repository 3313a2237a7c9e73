"""The mixed learner: a random bank's sums, and a small head on them that is learnt so that codes follow neighbourhoods.

Rows are read once: a bank of random signs brings each down to m sums f, and all that follows happens on these. Bits are
sign(f A B + b), so that each sees every dimension. A (m x k) starts with the principal components of the sums, B at
random: where learning starts, codes are those of components in a random frame. Minimised by Adam on mini-batches is

    1 - corr(S, T) + mean over bits of (mean of h)^2,   S = h h' / d,   h = tanh(margins / deviation + noise)

where T tells which vectors belong together (`projbank.learn.target`): where walks from them on the graph of neighbours
meet, and, where that graph has few clusters, their cosines in the space of the components too. In every batch a share
of the sums is dropped, against learning vectors by heart. Held-back vectors shorten the step, end the learning and
choose the weights (`projbank.learn.descent`).

Codes are nested: in every mini-batch the first 64, 128 or 256 bits learn as a code by themselves, too, and a code of so
many bits is the beginning of a longer one. More than some hundred bits are not learnt one by one, and fewer where rows
are few: the others are the learnt ones in turn, each with a little of a random mixture of all margins, so that
distances of codes tell ever finer how similar relaxed bits are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.learn.components import leading_values
from projbank.learn.descent import NOISE, Learnable, descend
from projbank.learn.neighbors import centered_rows
from projbank.learn.random import RandomLearner
from projbank.learn.run import Learner, Run, chosen, neighbor_count
from projbank.learn.target import (
    UNKNOWN,
    WalkTarget,
    approximate_neighbors,
    cosine_share,
    exact_neighbors,
    near_enough,
    neighbor_walk,
    product,
)
from projbank.models.bank import Bank, HeadedBank
from projbank.params import reject
from projbank.progress import say
from projbank.rows.source import ArrayRows, RowSource
from projbank.rows.views import standardised

SUMS, RANK = 8192, 256
"""Unless told otherwise: sums, at most one for every dimension; what the head brings them down to."""
TRAIN_SIZE = 20_000
"""Rows to learn from, at most, unless told otherwise."""
EXACT = 10_000
"""Rows up to which neighbours are those of the rows themselves; above, those of their sums."""
_COARSE = 128
"""Components of the sums in which candidates for neighbours are looked for."""
_NEIGHBORS, _NEIGHBOR_SHARE, _FEWEST_NEIGHBORS = 30, 20, 5
"""Neighbours on the graph: so many, or half of them, but at most one row in so many, and at least so many."""
_PREFIXES = (64, 128, 256)
"""Lengths of codes that a code begins with."""
_BITS, _ROWS_PER_BIT = (256, 512), 4
"""Bits that are learnt, least and most, and rows that each takes between these."""
_ADDED = 0.35
"""Deviation of what is added to the margins of a learnt bit, of deviation 1, to get another bit of it."""
_BATCH = 512
_RATES, _RATES_ON = (0.06, 0.02), (0.2, 0.06)
"""Steps of Adam: the second when held-back vectors gain no more; and those of a bank that learns on."""
_MOST_ON, _BATCH_ON = 16, 256
"""Iterations at most of a bank that learns on, and rows of its mini-batches."""
_RIDGE = 1e-4
"""Share of the mean square that is added to each, so that components which new rows lack do no harm."""
_DROP = 0.3
"""Share of the sums that a mini-batch lacks."""
_SAMPLE = 4096
"""Rows that principal components are taken from."""
_POWERS, _SPARE = 3, 16
"""Rounds and spare directions of the power iteration behind them."""

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class MixedLearner(Learner):
    """Learns a head on the sums of a random bank; parameters as those of `ProjectionBank`.

    Learning on keeps the bank. A becomes the components of the new sums, and B alone is learnt, from where codes are
    those of the start: steps cost less, and few are needed.
    """

    renews: ClassVar[bool] = True
    takes_labels: ClassVar[bool] = True

    grouping: str | ArrayLike
    n_assign: int | str
    n_sums: int | str
    rank: int | str
    n_neighbors: int | str
    n_components: int | str
    train_size: int | str
    max_iter: int
    noise: float | str
    standardize: bool
    kmeans_iter: int

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> HeadedBank:
        """Sum up the rows by a random bank, and learn a head on the sums."""
        n_all = rows.shape[0]
        n_rows = min(n_all, chosen(self.train_size, TRAIN_SIZE))
        labels = run.labels if run.labels is None or (run.labels != UNKNOWN).any() else None
        if n_rows < n_all:
            drawn = rows.sample(n_rows, run.seed)
            rows, labels = rows.chosen(drawn), None if labels is None else labels[drawn]
            say(f"learning from {n_rows:,} of {n_all:,} rows", run.verbose)
        start = run.start if isinstance(run.start, HeadedBank) else None
        bank = self._draw_bank(rows, run) if start is None else Bank(start.labels, start.weights, start.centers)
        sums = bank.margins(rows, n_threads=run.n_threads, verbose=run.verbose)
        unit = np.float32(1 / max(float(sums.std(dtype=np.float64)), 1e-12) if start is None else 1)
        sums *= unit
        rank = min(n_rows, bank.n_bits, chosen(self.rank, RANK))
        rng = np.random.default_rng([run.seed, 2])
        least, most = _BITS
        n_learnt = min(most, n_bits if start or n_bits < _PREFIXES[0] else max(least, n_rows // _ROWS_PER_BIT))
        components = start.inner if start and run.keep else principal_components(sums, rank, rng, run.n_threads)
        near = self._neighbors(rows, sums, components, run)
        share = cosine_share(near) if isinstance(self.n_components, str) else 0.0  # cosines are what is too noisy there
        few = product(sums, components, run.n_threads)
        directions = centered_rows(few, few.mean(axis=0), True)[0] if share else None
        if share:
            say(f"neighbours have few neighbours in common: {share:.2f} of the target is cosines", run.verbose)
        head = Head(components, n_learnt, rng, run.n_threads)
        learnt: Learnable = head
        seen = sums
        if start is not None:
            head.follow(start, sums)
            seen, learnt = product(sums, head.inner, run.n_threads), LastStep(head, run.n_threads)
        curve = descend(
            ArrayRows(seen),
            learnt,
            WalkTarget(neighbor_walk(near, labels), run.n_threads, labels, directions, share),
            _RATES if start is None else _RATES_ON,
            self.max_iter if start is None else min(self.max_iter, _MOST_ON),
            run.seed,
            rng,
            batch=_BATCH if start is None else _BATCH_ON,
            noise=chosen(self.noise, NOISE),
            drop=_DROP if start is None else 0.0,
            prefixes=tuple(b for b in _PREFIXES if b < n_learnt),
            n_threads=run.n_threads,
            verbose=run.verbose,
        )
        if start is None:
            outer, offsets = head.extended(sums[:_SAMPLE], n_bits, rng)
        else:
            outer, offsets = head.extended_as(start)
        weights, centers = bank.weights * unit, bank.biases * unit
        return HeadedBank(bank.labels, weights, centers, head.inner.copy(), outer, -offsets, curve)

    def undrawn(self, rows: RowSource, run: Run) -> Ids:
        """Ascending ids of the rows that were not drawn to learn from."""
        drawn = rows.sample(chosen(self.train_size, TRAIN_SIZE), run.seed)
        return np.setdiff1d(np.arange(rows.shape[0]), drawn)

    def _draw_bank(self, rows: RowSource, run: Run) -> Bank:
        """Groups of dimensions, random signs, thresholds at the mean."""
        n_features = rows.shape[1]
        n_sums = chosen(self.n_sums, min(n_features, SUMS))
        if not isinstance(self.grouping, str) and isinstance(self.n_sums, str):
            n_sums = int(np.max(self.grouping, initial=0)) + 1
        named = isinstance(self.grouping, str) and self.grouping.startswith("soft")
        n_assign = self.n_assign if named else chosen(self.n_assign, 1)
        if n_sums > chosen(n_assign, 1) * n_features:
            reject(run.owner, "n_sums", f"at most the number of features, {n_features}", n_sums)
        learner = RandomLearner(self.grouping, n_assign, self.kmeans_iter, self.standardize)
        return learner.learn(rows, n_sums, run)

    def _neighbors(self, rows: RowSource, sums: Floats, components: Floats, run: Run) -> Ids:
        """Nearest neighbours: exact ones of few rows, nearly all those of their sums where rows are many."""
        n_rows, settings = len(sums), {"n_threads": run.n_threads, "verbose": run.verbose}
        if isinstance(self.n_neighbors, str):
            n_neighbors = min(n_rows - 1, max(_FEWEST_NEIGHBORS, min(_NEIGHBORS, n_rows // _NEIGHBOR_SHARE)))
        else:
            n_neighbors = neighbor_count(self.n_neighbors, n_rows)
        if not isinstance(self.n_components, str):
            values = leading_values(rows, self.n_components, run.n_threads)
            return exact_neighbors(ArrayRows(values), n_neighbors, **settings)
        if n_rows > EXACT:
            return approximate_neighbors(sums, components[:, :_COARSE], n_neighbors, seed=run.seed, **settings)
        rows = standardised(rows, self.standardize)[0] if run.start is None else ArrayRows(sums)
        if isinstance(self.n_neighbors, str) and n_neighbors == _NEIGHBORS:
            return near_enough(exact_neighbors(rows, 2 * n_neighbors, **settings))
        return exact_neighbors(rows, n_neighbors, **settings)


class Head:
    """The head under way: margins of sums, and the gradient from slopes in the margins.

    Parameters
    ----------
    inner : (m, k) where A starts
    n_bits : bits
    rng : draws B, where it starts
    n_threads : threads
    """

    def __init__(self, inner: Floats, n_bits: int, rng: np.random.Generator, n_threads: int) -> None:
        m, rank = inner.shape
        self.weights = np.empty(m * rank + rank * n_bits, np.float32)
        self.inner = self.weights[: m * rank].reshape(m, rank)
        self.outer = self.weights[m * rank :].reshape(rank, n_bits)
        self.offsets = np.zeros(n_bits, np.float32)
        self.inner[:] = inner
        self.outer[:] = rng.standard_normal((rank, n_bits), np.float32)
        self._n_threads = n_threads
        self._sums = self._middle = np.empty((0, 0), np.float32)

    def follow(self, start: HeadedBank, sums: Floats) -> None:
        """Begin with the bits of a bank, as well as A can tell them, and with weights as large as those of a new head.

        With the bank's own A they are its bits; on components of new sums learning goes on much faster.
        """
        outer = start.outer[:, : len(self.offsets)]
        if not np.array_equal(self.inner, start.inner):
            margins = product(product(sums, start.inner, self._n_threads), outer, self._n_threads)
            components = product(sums, self.inner, self._n_threads)
            squares = product(components.T, components, self._n_threads).astype(np.float64)
            squares[np.diag_indices_from(squares)] += max(_RIDGE * float(np.mean(np.diag(squares))), 1e-12)
            outer = np.linalg.solve(squares, product(components.T, margins, self._n_threads))
        self.outer[:], self.offsets[:] = outer, -start.biases[: len(self.offsets)]
        sizes = np.sqrt(np.mean(self.outer**2, axis=0))
        self.divide_margins(np.where(sizes > 0, sizes, 1))

    def state(self) -> tuple[Floats, Floats]:
        """What is learnt, to come back to."""
        return self.weights.copy(), self.offsets.copy()

    def restore(self, state: tuple[Floats, Floats]) -> None:
        """Come back to a state."""
        self.weights[:], self.offsets[:] = state

    def margins(self, rows: Floats) -> Floats:
        """(b, n_bits) margins of a batch of sums."""
        self._sums = rows
        self._middle = product(rows, self.inner, self._n_threads)
        margins = product(self._middle, self.outer, self._n_threads)
        margins += self.offsets
        return margins

    def divide_margins(self, by: Floats) -> None:
        """Divide the margins of each bit by a number above 0."""
        self.outer /= by
        self.offsets /= by

    def gradient(self, slopes: Floats) -> tuple[Floats, Floats]:
        """Gradients in weights and offsets from slopes in the margins, for the batch that `margins` saw last."""
        gradient = np.empty_like(self.weights)
        back = product(slopes, self.outer.T, self._n_threads)
        gradient[: self.inner.size] = product(self._sums.T, back, self._n_threads).ravel()
        gradient[self.inner.size :] = product(self._middle.T, slopes, self._n_threads).ravel()
        return gradient, slopes.sum(axis=0, dtype=np.float64).astype(np.float32)

    def extended(self, rows: Floats, n_bits: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Matrix (k, n_bits) and offsets with fewer or more bits; `rows` tell how large mixtures of margins are."""
        learnt = len(self.offsets)
        more = n_bits - learnt
        if more <= 0:
            return self.outer[:, :n_bits].copy(), self.offsets[:n_bits].copy()
        mixture = rng.standard_normal((more, learnt), np.float32).T.copy()  # a longer code begins with a shorter one
        spreads = product(self.margins(rows), mixture, self._n_threads).std(axis=0)
        mixture *= np.float32(_ADDED) / np.where(spreads > 0, spreads, 1)
        mixture[np.arange(more) % learnt, np.arange(more)] += 1
        outer = np.hstack([self.outer, product(self.outer, mixture, self._n_threads)])
        return outer, np.concatenate([self.offsets, self.offsets @ mixture])

    def extended_as(self, start: HeadedBank) -> tuple[Floats, Floats]:
        """Matrix and offsets with the further bits of a bank: those mixtures of these margins that they were there."""
        learnt = len(self.offsets)
        mixture = np.linalg.lstsq(start.outer[:, :learnt], start.outer[:, learnt:], rcond=None)[0]
        more = (self.offsets + start.biases[:learnt]) @ mixture - start.biases[learnt:]
        outer = np.hstack([self.outer, product(self.outer, mixture, self._n_threads)])
        return outer, np.concatenate([self.offsets, more.astype(np.float32)])


class LastStep:
    """The matrix B of a head alone, for rows that A has brought down; what it learns is the head's."""

    def __init__(self, head: Head, n_threads: int) -> None:
        self.weights, self.offsets = head.outer, head.offsets
        self._n_threads = n_threads
        self._rows = np.empty((0, 0), np.float32)

    def state(self) -> tuple[Floats, Floats]:
        """What is learnt, to come back to."""
        return self.weights.copy(), self.offsets.copy()

    def restore(self, state: tuple[Floats, Floats]) -> None:
        """Come back to a state."""
        self.weights[:], self.offsets[:] = state

    def margins(self, rows: Floats) -> Floats:
        """(b, n_bits) margins of a batch."""
        self._rows = rows
        return product(rows, self.weights, self._n_threads) + self.offsets

    def divide_margins(self, by: Floats) -> None:
        """Divide the margins of each bit by a number above 0."""
        self.weights /= by
        self.offsets /= by

    def gradient(self, slopes: Floats) -> tuple[Floats, Floats]:
        """Gradients in weights and offsets from slopes in the margins, for the batch that `margins` saw last."""
        return product(self._rows.T, slopes, self._n_threads), slopes.sum(axis=0, dtype=np.float64).astype(np.float32)


def principal_components(sums: Floats, rank: int, rng: np.random.Generator, n_threads: int) -> Floats:
    """Return the leading principal directions of centred sums, (m, rank), whose entries have mean square 1."""
    few = sums[:: -(-len(sums) // _SAMPLE)]
    m = few.shape[1]
    directions = rng.standard_normal((m, min(m, rank + _SPARE)), np.float32)
    for _ in range(_POWERS):
        directions = np.linalg.qr(product(few.T, product(few, directions, n_threads), n_threads))[0]
    projected = product(few, directions, n_threads)
    _, turns = np.linalg.eigh(projected.T.astype(np.float64) @ projected)
    leading = product(directions, turns[:, ::-1][:, :rank].astype(np.float32), n_threads)
    return np.asarray(leading / np.sqrt(np.mean(leading**2)), np.float32)
