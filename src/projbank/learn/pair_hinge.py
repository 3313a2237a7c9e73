"""The paper's loss of pairs and its adaptive gradient descent (AGD), each group for itself (equations 6 to 9).

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
from numpy.typing import NDArray

from projbank.kernels.pairs import pair_hinge, project_groups, project_slopes

_POWER_STEPS = 6
_SCALES = np.array([0.25, 0.35, 0.5, 0.7, 1.0, 1.4])
"""Root mean squares of the margins at which a starting direction is tried."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Point:
    """Where the groups of a tile stand: weights and offsets, and what the loss is there, as `PairHinge.evaluate` says.

    `kinks` (T,): how many hinges sit exactly at 0, where the loss has no gradient.
    """

    weights: Floats
    offsets: Floats
    losses: NDArray[np.float64]
    weight_slopes: Floats
    offset_slopes: Floats
    kinks: NDArray[np.int64]

    def part(self, groups: NDArray[np.bool_], dims: NDArray[np.bool_]) -> Point:
        """The point of some of the groups, whose dimensions are `dims`."""
        return Point(**{name: array[dims if "weight" in name else groups] for name, array in vars(self).items()})

    def put(self, groups: NDArray[np.int64], dims: NDArray[np.int64], other: Point) -> None:
        """Move some of the groups to another point."""
        for name, array in vars(self).items():
            array[dims if "weight" in name else groups] = getattr(other, name)


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

    def evaluate(self, weights: Floats, offsets: Floats) -> Point:
        """Loss L of every group, its slopes in weights and offsets, and the number of hinges at 0."""
        F = self.margins(weights, offsets)
        hinges, G, kinks = self.hinge(F)
        weight_slopes, bias_slopes = self._pull_back(G)
        biases = self.biases(weights, offsets)
        losses = self.penalties(weights, offsets, F) + self.lam * hinges
        weight_slopes = (self.lam * weight_slopes + weights + biases[self.group_of] * self.means).astype(np.float32)
        bias_slopes = (self.lam * bias_slopes + biases).astype(np.float32)
        return Point(weights, offsets, losses, weight_slopes, bias_slopes, kinks)

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


def descend(
    loss: PairHinge, init: str, max_iter: int, tol: float, rng: np.random.Generator
) -> tuple[Floats, Floats, NDArray[np.float64]]:
    """AGD on all groups of a tile at once: step 1, times 1.2 after a decrease, halved (and not taken) otherwise.

    A group stops once its loss per pair changes by less than `tol`; the others go on without it. Returns weights,
    biases, and the loss per pair after each step (T, max_iter + 1).
    """
    weight_unit, offset_unit = _step_units(loss)
    point = loss.evaluate(*start(loss, init, rng))
    steps, going = np.ones(loss.n_groups), np.ones(loss.n_groups, bool)
    curves = np.empty((max_iter + 1, loss.n_groups))
    curves[0] = point.losses
    pair_scale = loss.lam * loss.n_samples**2
    for t in range(1, max_iter + 1):
        if not going.any():
            curves[t:] = point.losses
            break
        dims = going[loss.group_of]
        part, here = loss.part(going), point.part(going, dims)
        group_of = part.group_of
        weights = (here.weights - (steps * weight_unit)[going][group_of] * here.weight_slopes).astype(np.float32)
        weights += _nudge(weights, here.kinks > 0, group_of, rng)
        offsets = here.offsets - (steps * offset_unit)[going] * here.offset_slopes
        trial = part.evaluate(weights, offsets.astype(np.float32))
        falls = here.losses - trial.losses
        better = falls >= 0
        own = better[group_of]
        point.put(np.flatnonzero(going)[better], np.flatnonzero(dims)[own], trial.part(better, own))
        steps[going] *= np.where(better, 1.2, 0.5)
        going[going] = np.abs(falls) >= tol * pair_scale
        curves[t] = point.losses
    return point.weights, loss.biases(point.weights, point.offsets).astype(np.float32), curves.T / pair_scale


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
