"""The loss of the learners of whole codes, and its descent: similarities of relaxed codes should follow a target.

Adam on mini-batches; held-back vectors shorten the step, end the learning and choose the weights.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.learn.moving import Mover
from projbank.learn.target import LARGE, center_pairs, symmetric_product
from projbank.progress import progress, say
from projbank.rows.source import RowSource
from projbank.threads import blas_threads, run_each, split_rows

NOISE = 0.5
"""Deviation of the noise on relaxed bits, in those of their margins."""
_FULL_NOISE_BITS = 256
"""Bits from which noise is added in full."""
_BATCH = (256, 512)
"""Vectors of a mini-batch, least and most."""
_MARGINS = 1 << 20
"""Margins of a mini-batch, about, between these."""
STEPS_PER_ITERATION = 8
"""Mini-batches between two looks at the held-back vectors."""
_HELD, _HELD_SHARE, _FEW = 256, 10, 200
"""Vectors held back: so many, at most one in so many; none where there are few."""
_PATIENCE, _LEAST_GAIN = 2, 2e-4
"""Looks without a gain of so much before the step is shortened."""
_DECAYS = (0.9, 0.999)
"""Of Adam (Kingma and Ba, ICLR 2015)."""
BATCH_NEIGHBORS = 3
"""Neighbours of a vector that come into a mini-batch with it.

Of many vectors a random few are rarely near each other: in a batch of 512 out of 5,000, a vector meets about one of its
ten nearest, which tell most about where codes should agree.
"""
_NEAREST = 10
"""Neighbours whose recall is told."""
_USUAL, _SETTLED, _LATER = 17, 9, 5
"""For the time left: after how many iterations learning has often ended, after how many since dimensions have last
moved, and how many are likely left where it has not ended by then."""

Floats = NDArray[np.float32]


class Target(Protocol):
    """Which similarities codes should have; `walk` weighs the edges between neighbours, (n, n)."""

    walk: sp.csr_array

    def of(self, ids: NDArray[np.int64], rows: Floats | None) -> Floats:
        """Similarities of the vectors `ids`, whose values are `rows`: mean 0, deviation 1, diagonal 0; (b, b)."""


class Learnable(Protocol):
    """What is learnt; weights and offsets are changed in place."""

    weights: Floats
    offsets: Floats

    def margins(self, rows: Floats) -> Floats:
        """(b, d) margins of a batch."""

    def gradient(self, slopes: Floats) -> tuple[Floats, Floats]:
        """Gradients in weights and offsets from slopes in the margins, for the batch that `margins` saw last."""

    def divide_margins(self, by: Floats) -> None:
        """Divide the margins of each bit by a number above 0; no bit changes by that."""

    def state(self) -> Any:
        """What is learnt, to come back to."""

    def restore(self, state: Any) -> None:
        """Come back to a state."""


def descend(
    rows: RowSource,
    model: Learnable,
    target: Target,
    rates: tuple[float, ...],
    max_iter: int,
    seed: int,
    rng: np.random.Generator,
    *,
    batch: int,
    noise: float = NOISE,
    drop: float = 0.0,
    prefixes: tuple[int, ...] = (),
    mover: Mover | None = None,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.float64]:
    """Learn a model by Adam on mini-batches until the held-back vectors gain no more; they choose its weights.

    Parameters
    ----------
    rows : (n, D) training data; mini-batches of them are read as they are needed
    model : what is learnt; in the end its margins have deviation 1, about
    target : similarities of the training vectors
    rates : steps; the next is taken when the held-back vectors stop gaining, and after the last learning ends
    max_iter : iterations of 8 mini-batches, at most; the held-back vectors judge after each
    seed, rng : which vectors are held back; draws the mini-batches
    batch : vectors of a mini-batch
    noise : see `ProjectionBank`
    drop : share of the values of a mini-batch that are set to 0, others grow to make up for it
    prefixes : so many first bits are to be good codes by themselves: every mini-batch teaches one of these lengths, too
    mover : moves dimensions between the model's groups after each check, and puts off shorter steps meanwhile

    Returns
    -------
    curve : (n_iter + 1,) loss of a batch at the start, then the mean loss of each iteration's batches
    """
    held, free = hold_back(rows.shape[0], seed)
    adam = Adam(model.weights, model.offsets)
    seen = np.empty((min(batch, len(free)), rows.shape[1]), np.float32)
    n_bits = len(model.offsets)
    batches = NeighborBatches(target.walk, free, rng)
    level = noise_level(n_bits, noise)
    noises = level * rng.standard_normal((2 * len(seen), n_bits), np.float32)  # a batch takes part of it

    def draw() -> NDArray[np.int64]:
        ids = batches.draw(len(seen))
        rows.take(ids, seen, n_threads)
        return ids

    def measure() -> tuple[float, Floats]:
        """Loss of a mini-batch, and its slopes in the margins."""
        ids = draw()
        start = rng.integers(len(seen) + 1)
        part = noises[start : start + len(seen)]
        if drop:
            stays = rng.integers(256, size=seen.shape, dtype=np.uint8) >= round(256 * drop)
            np.multiply(seen, stays * np.float32(1 / (1 - drop)), out=seen)
        margins, wanted = model.margins(seen), target.of(ids, seen)
        loss, slopes = code_loss(margins, wanted, n_threads, noise=part)
        if prefixes:
            b = int(rng.choice(prefixes))
            more = code_loss(margins[:, :b], wanted, n_threads, noise=part[:, :b])[1]
            slopes[:, :b] += np.float32(b / n_bits) * more  # as steep as those of the whole code
        return loss, slopes

    def survey(n: int) -> tuple[Floats, Floats]:
        """A larger batch, and the slopes of its loss in the margins."""
        ids = np.sort(rng.choice(free, n, replace=False))
        many = rows.read(ids, n_threads)
        own = level * rng.standard_normal((n, n_bits), np.float32)
        return many, code_loss(model.margins(many), target.of(ids, many), n_threads, noise=own)[1]

    with blas_threads(), progress("learning together", max_iter, verbose) as advance:
        referee = Referee(rows, held, target, model)
        curve = [measure()[0]]
        if len(held):
            say(f"start: loss {curve[0]:.4f}; {referee.judge()}", verbose)
        began = time.perf_counter()
        for t in range(max_iter):
            losses = []
            for _ in range(STEPS_PER_ITERATION):
                loss, slopes = measure()
                adam.step(rates[referee.n_shortened], *model.gradient(slopes))
                losses.append(loss)
            curve.append(float(np.mean(losses)))
            left = max_iter - t - 1
            if len(held):
                verdict = referee.judge()
                usual = (_USUAL if mover is None else mover.last + _SETTLED) - t - 1
                left = min(left, referee.likely_left(usual, len(rates)))
            advance(1, left=left)
            if t == 0:
                say(f"learning will take about {in_words(left * (time.perf_counter() - began))}", verbose)
            if len(held):
                say(f"iteration {t + 1}: loss {curve[-1]:.4f}; {verdict}", verbose)
                if referee.n_shortened == len(rates):
                    say(f"stopped after {t + 1} iterations: the held-back vectors gain no more", verbose)
                    break
                if mover is not None and t < mover.last:
                    places = mover.move(*survey(mover.survey_size(len(free))))
                    adam.forget(places)
                    referee.wait()
                    say(f"{len(places)} of {model.weights.size} weights moved to other bits", verbose)
        referee.restore()
        draw()
        spreads = model.margins(seen).std(axis=0)
        model.divide_margins(np.where(spreads > 0, spreads, 1))
    return np.array(curve)


def in_words(seconds: float) -> str:
    """Return a length of time as text, as exact as an estimate is."""
    return f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} minutes"


def code_loss(F: Floats, target: Floats, n_threads: int = 1, *, noise: Floats | None = None) -> tuple[float, Floats]:
    """1 - corr(S, target) + mean squared mean of the relaxed bits, and its gradient in the margins F.

    F (n, d) margins; target (n, n) symmetric with zero diagonal, mean 0 and deviation 1 off the diagonal; noise (n, d)
    is added to the margins in units of their deviations. The deviations, which set the temperature of tanh, are taken
    as constants; a bit whose margins are all equal has no gradient.
    """
    n, d = F.shape
    H, sharpness, balance = np.empty_like(F), np.empty(d, np.float32), np.empty(d)
    workers = n_threads if F.size * n > LARGE else 1
    blocks = split_rows(d, max(64, -(-d // 8)))

    def relax(first: int, last: int) -> None:
        part = slice(first, last)
        spreads = F[:, part].std(axis=0)
        sharpness[part] = np.divide(1, spreads, out=np.zeros_like(spreads), where=spreads > np.finfo(np.float32).tiny)
        relaxed = F[:, part] * sharpness[part]
        if noise is not None:
            relaxed += noise[:, part]
        H[:, part] = np.tanh(relaxed, out=relaxed)
        balance[part] = relaxed.mean(axis=0)

    run_each(relax, blocks, workers)
    S, spread = center_pairs(symmetric_product(H, n_threads) / np.float32(d))
    spread = max(spread, 1e-12)
    n_pairs = n * (n - 1)
    correlation = np.einsum("ij,ij->", S, target, dtype=np.float64) / (n_pairs * spread)
    pull = (S * np.float32(correlation / spread) - target) * np.float32(2 / (d * n_pairs * spread))
    pull_to_balance = (balance * (2 / (n * d))).astype(np.float32)
    slopes = np.empty_like(F)

    def chain(rows: slice, columns: slice) -> None:
        part, relaxed = slopes[rows, columns], H[rows, columns]
        np.matmul(pull[rows], H[:, columns], out=part)
        part += pull_to_balance[columns]
        steepness = relaxed * relaxed
        np.subtract(1, steepness, out=steepness)
        steepness *= sharpness[columns]
        part *= steepness

    whole = slice(None)
    if d > n:  # BLAS is at its best where the longer side is cut
        parts = [(whole, slice(*columns)) for columns in blocks]
    else:
        parts = [(slice(*rows), whole) for rows in split_rows(n, 128)]
    run_each(chain, parts, workers)
    return float(1 - correlation + np.mean(balance**2)), slopes


def batch_size(n_bits: int) -> int:
    """Vectors of a mini-batch: 512, and fewer where bits are many, which cost more and tell each pair better."""
    least, most = _BATCH
    return max(least, min(most, _MARGINS // n_bits))


def noise_level(n_bits: int, noise: float = NOISE) -> np.float32:
    """Deviation of the noise on relaxed bits: less for short codes, where no other bits make up for it."""
    return np.float32(noise * min(1.0, np.sqrt(n_bits / _FULL_NOISE_BITS)))


def hold_back(n_samples: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ascending ids of the vectors that judge and of those to learn from; few vectors are all learnt from."""
    n_held = min(_HELD, n_samples // _HELD_SHARE) if n_samples >= _FEW else 0
    order = np.random.default_rng(seed).permutation(n_samples)
    return np.sort(order[:n_held]), np.sort(order[n_held:])


class Referee:
    """Judges the bank by the true codes of held-back vectors, keeps the best weights, and shortens the step."""

    def __init__(self, rows: RowSource, held: NDArray[np.int64], target: Target, bank: Learnable) -> None:
        self._bank = bank
        self._best, self._stale = np.inf, 0
        self._kept: Any = None
        self.n_shortened = 0
        if len(held):
            self._rows = rows.read(held)
            self._target = target.of(held, self._rows)
            self._near = _nearest(self._target)

    def judge(self) -> str:
        """Score the bank; says in words how well it does."""
        bits = np.where(self._bank.margins(self._rows) > 0, np.float32(1), np.float32(-1))
        S, spread = center_pairs(bits @ bits.T)
        loss = 1 - float(np.mean(S * self._target)) * len(S) / ((len(S) - 1) * max(spread, 1e-12))
        if loss < self._best - _LEAST_GAIN:
            self._best, self._stale = loss, 0
            self._kept = self._bank.state()
        else:
            self._stale += 1
            if self._stale == _PATIENCE:
                self._stale = 0
                self.n_shortened += 1
                self.restore()
        recall = np.mean([len(np.intersect1d(a, b)) for a, b in zip(_nearest(S), self._near, strict=True)])
        imbalance = float(np.mean(np.abs(bits.mean(axis=0)))) / 2
        share = recall / self._near.shape[1]
        return f"held back: loss {loss:.4f}, mean |P(bit) - 1/2| {imbalance:.3f}, neighbour recall {share:.3f}"

    def likely_left(self, usual: int, n_rates: int) -> int:
        """How many iterations will follow, where `usual` are left in most cases: for the time left."""
        if self.n_shortened:
            return (n_rates - self.n_shortened) * _PATIENCE + 1 - self._stale
        return max(usual, _LATER)

    def restore(self) -> None:
        """Go back to the best weights."""
        if self._kept is not None:
            self._bank.restore(self._kept)

    def wait(self) -> None:
        """Begin to count checks without a gain anew."""
        self._stale = 0


def _nearest(similarities: Floats) -> NDArray[np.int64]:
    """Ids of each vector's nearest, itself left out."""
    without_self = similarities - 2 * np.eye(len(similarities), dtype=np.float32) * (np.abs(similarities).max() + 1)
    return np.argsort(-without_self, axis=1, kind="stable")[:, : min(_NEAREST, len(similarities) - 1)]


class Adam:
    """Adam on arrays that it changes in place, and which forgets what has moved."""

    def __init__(self, *arrays: Floats) -> None:
        self._arrays = arrays
        self._moments = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]
        self._time = 0

    def forget(self, places: NDArray[np.int64]) -> None:
        """Forget the course of some places of the first array, which begin anew."""
        for moment in self._moments[0]:
            moment.reshape(-1)[places] = 0

    def step(self, rate: float, *slopes: Floats) -> None:
        """Step against the slopes, one for each array."""
        self._time += 1
        for array, (first, second), slope in zip(self._arrays, self._moments, slopes, strict=True):
            first += (1 - _DECAYS[0]) * (slope - first)
            second += (1 - _DECAYS[1]) * (slope * slope - second)
            scale = rate / (1 - _DECAYS[0] ** self._time)
            array -= scale * first / (np.sqrt(second / (1 - _DECAYS[1] ** self._time)) + 1e-12)


class NeighborBatches:
    """Draws batches: a quarter of the vectors at random, some neighbours of each, and others to fill up.

    Parameters
    ----------
    walk : (n, n) symmetric weights of the edges between neighbours
    free : ids of the vectors to draw from
    rng : draws
    """

    def __init__(self, walk: sp.csr_array, free: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._walk, self._free, self._rng = walk, free, rng
        self._is_free = np.zeros(walk.shape[0], bool)
        self._is_free[free] = True

    def draw(self, size: int) -> NDArray[np.int64]:
        """`size` ascending ids; an edge leads into the batch by its weight, among those of a vector."""
        first = self._rng.choice(self._free, size // (1 + BATCH_NEIGHBORS), replace=False)
        chosen = np.union1d(first, self._neighbors(first))
        others = self._rng.choice(self._free, size, replace=False)
        others = others[~np.isin(others, chosen)]
        return np.sort(np.concatenate([chosen, others[: size - len(chosen)]]))

    def _neighbors(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Some neighbours of each vector, no one twice: the first of exponential clocks as fast as edges weigh."""
        edges = self._walk[ids]
        own = np.repeat(np.arange(len(ids)), np.diff(edges.indptr))
        usable = self._is_free[edges.indices] & (edges.indices != ids[own])
        own, ends, weights = own[usable], edges.indices[usable], edges.data[usable]
        order = np.lexsort((self._rng.standard_exponential(len(own)) / weights, own))
        rank = np.arange(len(own)) - np.searchsorted(own, own)  # own ascends, before and after ordering
        return ends[order[rank < BATCH_NEIGHBORS]]
