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

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from projbank.kernels.encode import transposed_product, transposed_rows
from projbank.learn.adam import Adam
from projbank.learn.batches import NeighborBatches
from projbank.learn.moving import Mover
from projbank.learn.target import LARGE, SimilarityTarget, center_pairs, symmetric_product
from projbank.models.bank import Bank
from projbank.progress import progress, say
from projbank.rows.source import take_rows
from projbank.threads import run_all, split_rows

_BATCH = (256, 512)
_MARGINS = 1 << 20
STEPS_PER_ITERATION = 8

_RATES = (0.06, 0.02)
NOISE = 0.5
"""Deviation of the noise on relaxed bits, in those of their margins."""
_FULL_NOISE_BITS = 256
_HELD = 256
_HELD_SHARE = 10
_FEW = 200
_PATIENCE = 2
_LEAST_GAIN = 2e-4
_NEAREST = 10
_VALUES_PER_BIT = 16

Floats = NDArray[np.float32]


def learn(
    X: Any,
    labels: NDArray[np.int32],
    target: SimilarityTarget,
    means: NDArray[np.float64],
    *,
    deviation: float,
    n_bits: int,
    max_iter: int,
    seed: int,
    noise: float = NOISE,
    signs: Floats | None = None,
    deviations: NDArray[np.float64] | None = None,
    n_threads: int = 1,
    verbose: int = 0,
) -> tuple[NDArray[np.int32], Floats, Floats, NDArray[np.float64]]:
    """Learn all weights and biases of a bank together.

    Parameters
    ----------
    X : (n, D) training data; mini-batches of rows are read as they are needed
    labels : (D,) group of each dimension, or (r, D) where a dimension serves r groups
    target : similarities of the training vectors
    means : (D,) means of the data
    deviation : root mean square of the centred data: the unit of the weights
    n_bits, max_iter, seed, noise : see `ProjectionBank`
    signs : where the weights start, shaped as labels; random if not given
    deviations : (D,) of the data, where dimensions may leave their groups for others (`projbank.learn.moving`)

    Returns
    -------
    labels : those given, or where the dimensions have moved to
    weights : float32, shaped as labels; each bit's margins have deviation 1, about
    biases : (n_bits,) float32
    curve : (n_iter + 1,) loss of a batch at the start, then the mean loss of each iteration's batches
    """
    rng = np.random.default_rng([seed, 1])
    if signs is None:
        signs = _random_signs(labels, rng)
    bank = _LearntBank(labels, signs, means, deviation, n_bits, n_threads)
    mover = None
    if deviations is not None:
        mover = Mover(bank, means, deviations, max_iter, n_threads)
    batch = batch_size(n_bits)
    curve = descend(
        X,
        bank,
        target,
        _RATES,
        max_iter,
        seed,
        rng,
        batch=batch,
        noise=noise,
        mover=mover,
        n_threads=n_threads,
        verbose=verbose,
    )
    return bank.labels, bank.unit * bank.weights, bank.biases(), curve


def draw_bank(
    labels: NDArray[np.int32], means: NDArray[np.float64], *, deviation: float, n_bits: int, seed: int
) -> tuple[Floats, Floats]:
    """Weights and biases where `learn` starts if it is given no signs: random signs, thresholds at the mean."""
    signs = _random_signs(labels, np.random.default_rng([seed, 1]))
    bank = _LearntBank(labels, signs, means, deviation, n_bits, n_threads=1)
    return bank.unit * bank.weights, bank.biases()


def _random_signs(labels: NDArray[np.int32], rng: np.random.Generator) -> Floats:
    return rng.choice(np.array([-1, 1], np.float32), labels.shape)


class Model(Protocol):
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
    X: Any,
    model: Model,
    target: SimilarityTarget,
    rates: tuple[float, ...],
    max_iter: int,
    seed: int,
    rng: np.random.Generator,
    *,
    batch: int,
    noise: float = NOISE,
    mover: Mover | None = None,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.float64]:
    """Learn a model by Adam on mini-batches until the held-back vectors gain no more; they choose its weights.

    Parameters
    ----------
    X : (n, D) training data; mini-batches of rows are read as they are needed
    model : what is learnt; in the end its margins have deviation 1, about
    target : similarities of the training vectors
    rates : steps; the next is taken when the held-back vectors stop gaining, and after the last learning ends
    max_iter : iterations of 8 mini-batches, at most; the held-back vectors judge after each
    seed, rng : which vectors are held back; draws the mini-batches
    batch : vectors of a mini-batch
    noise : see `ProjectionBank`
    mover : moves dimensions between the model's groups after each check, and puts off shorter steps meanwhile

    Returns
    -------
    curve : (n_iter + 1,) loss of a batch at the start, then the mean loss of each iteration's batches
    """
    held, free = hold_back(X.shape[0], seed)
    adam = Adam(model.weights, model.offsets)
    rows = np.empty((min(batch, len(free)), X.shape[1]), np.float32)
    n_bits = len(model.offsets)
    batches = NeighborBatches(target.walk, free, rng)
    level = noise_level(n_bits, noise)
    noises = level * rng.standard_normal((2 * len(rows), n_bits), np.float32)  # a batch takes part of it

    def draw() -> NDArray[np.int64]:
        ids = batches.draw(len(rows))
        take_rows(X, ids, rows, n_threads)
        return ids

    def measure() -> tuple[float, Floats]:
        """Loss of a mini-batch, and its slopes in the margins."""
        ids = draw()
        start = rng.integers(len(rows) + 1)
        part = noises[start : start + len(rows)]
        return code_loss(model.margins(rows), target.of(ids, rows), n_threads, noise=part)

    def survey(n: int) -> tuple[Floats, Floats]:
        """A larger batch, and the slopes of its loss in the margins."""
        ids = np.sort(rng.choice(free, n, replace=False))
        seen = np.empty((n, X.shape[1]), np.float32)
        take_rows(X, ids, seen, n_threads)
        own = level * rng.standard_normal((n, n_bits), np.float32)
        return seen, code_loss(model.margins(seen), target.of(ids, seen), n_threads, noise=own)[1]

    with threadpool_limits(1, user_api="blas"), progress("learning together", max_iter, verbose) as advance:
        referee = _Referee(X, held, target, model)
        curve = [measure()[0]]
        if len(held):
            say(f"start: loss {curve[0]:.4f}; {referee.judge()}", verbose)
        for t in range(max_iter):
            losses = []
            for _ in range(STEPS_PER_ITERATION):
                loss, slopes = measure()
                adam.step(rates[referee.n_shortened], *model.gradient(slopes))
                losses.append(loss)
            curve.append(float(np.mean(losses)))
            advance(1)
            if len(held):
                verdict = referee.judge()
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
        spreads = model.margins(rows).std(axis=0)
        model.divide_margins(np.where(spreads > 0, spreads, 1))
    return np.array(curve)


def groups_for_sparse(nonzeros: float, n_bits: int, n_features: int) -> int:
    """Groups that a dimension should serve where 7 of 8 values of a vector are 0; 1 for other data.

    So many that a bit sees some values other than 0 of an average vector, but never more multiply-adds than dense data
    of the same length cost, `n_features`.
    """
    if 8 * nonzeros >= n_features:
        return 1
    nonzeros = max(nonzeros, 1.0)
    return int(max(1, min(np.ceil(_VALUES_PER_BIT * n_bits / nonzeros), n_features // nonzeros, n_bits - 1)))


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

    for _ in run_all(relax, blocks, workers):
        pass
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
    for _ in run_all(chain, parts, workers):
        pass
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


class _LearntBank:
    """The weights under way: margins of rows, and the gradient from slopes in the margins."""

    def __init__(
        self,
        labels: NDArray[np.int32],
        signs: Floats,
        means: NDArray[np.float64],
        deviation: float,
        n_bits: int,
        n_threads: int,
    ) -> None:
        self.weights = signs.copy()
        self.offsets = np.zeros(n_bits, np.float32)
        self.unit = np.float32(1.0 / deviation) if deviation > 0 else np.float32(1)
        self._center = means.astype(np.float32)
        self.labels = labels
        self._n_threads = n_threads
        self._rows = np.empty((0, len(means)), np.float32)

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
        bank = Bank(self._flat_labels, (self.unit * self.weights).T.ravel(), self.biases())
        return bank.margins(rows, n_threads=self._n_threads)

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
        for _ in run_all(multiply, split_rows(n_features, width), self._n_threads):
            pass
        return (out.T if mostly_zero else out).reshape(self._labels.shape)


class _Referee:
    """Judges the bank by the true codes of held-back vectors, keeps the best weights, and shortens the step."""

    def __init__(self, X: Any, held: NDArray[np.int64], target: SimilarityTarget, bank: Model) -> None:
        self._bank = bank
        self._best, self._stale = np.inf, 0
        self._kept: Any = None
        self.n_shortened = 0
        if len(held):
            self._rows = np.empty((len(held), X.shape[1]), np.float32)
            take_rows(X, held, self._rows)
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
