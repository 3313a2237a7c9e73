"""The joint learner for kernel banks: coefficients of all groups together, so that whole codes follow the data.

A bank on landmarks is linear in its coefficients: with k_p the kernels of a group's landmarks less their means,
f_p = a_p . k_p - offset, so the loss of `projbank.learn.joint`, which gives slopes in f, is learnt through
dL/da_p = sum over rows of slope_p k_p. Kernels of neighbouring landmarks are nearly equal, so the steps are taken in
the principal axes of each group's kernels, scaled to variance 1. The start is a linear bank that was learnt together,
regressed on the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from projbank.learn import joint
from projbank.learn.landmarks import choose_landmarks
from projbank.learn.target import SimilarityTarget
from projbank.models.mercer import TILE, Basis, Groups, Scaling
from projbank.threads import run_all, split_rows

_BATCH = 512
_RATES = (0.01, 0.003)
_RIDGE = 1e-3
_ROWS = 128
_GROUPS = 64

Floats = NDArray[np.float32]


class KernelModel:
    """A kernel bank on landmarks while it is learnt: coefficients a_p = axes_p w_p of kernels less their means.

    rows (n, D): samples from which landmarks, means and axes are taken; start (n, d): margins that it begins with.
    """

    def __init__(
        self, rows: Floats, groups: Groups, scaling: Scaling, n_landmarks: int, start: Floats, seed: int, n_threads: int
    ) -> None:
        d = len(groups)
        self.groups, self._n_threads = groups, n_threads
        self.landmarks = np.empty((n_landmarks, len(groups.columns)), np.float32)
        self._means = np.empty((d, n_landmarks), np.float32)
        self._axes = np.empty((d, n_landmarks, n_landmarks), np.float32)
        self.weights, self.offsets = np.empty((d, n_landmarks), np.float32), np.zeros(d, np.float32)

        def prepare(first: int, last: int) -> None:
            part, columns = groups.part(first, last), slice(int(groups.indptr[first]), int(groups.indptr[last]))
            values, own = rows[:, part.columns], scaling.part(columns)
            centers = np.empty((n_landmarks, values.shape[1]), np.float32)
            for t in range(last - first):
                rng = np.random.default_rng([seed, first + t])
                centers[:, part.own(t)] = choose_landmarks(values[:, part.own(t)], n_landmarks, rng)
            self.landmarks[:, columns] = centers
            basis, U, K = Basis(part, own, centers), own.scaled(values), np.empty((len(rows), n_landmarks), np.float32)
            for p in range(first, last):
                basis.matrix(U, p - first, K)
                self._means[p] = K.mean(axis=0, dtype=np.float64)
                self._axes[p], self.weights[p] = principal_axes(K - self._means[p], start[:, p])

        with threadpool_limits(1, user_api="blas"):  # each group on one thread: the same numbers on any machine
            for _ in run_all(prepare, split_rows(d, _GROUPS), n_threads):
                pass
        self._basis = Basis(groups, scaling, self.landmarks)
        self._gathered: list[Floats] = []

    def coefficients(self) -> tuple[Floats, Floats]:
        """Coefficients (d, n_landmarks) of the plain kernels, and biases (d,)."""
        a = np.einsum("pij,pj->pi", self._axes, self.weights)
        biases = self.offsets + np.einsum("pi,pi->p", a, self._means, dtype=np.float64)
        return a, biases.astype(np.float32)

    def margins(self, rows: Floats) -> Floats:
        """(b, d) margins of a batch, whose gathered columns are kept for `gradient`."""
        blocks = split_rows(len(rows), _ROWS)
        if [len(block) for block in self._gathered] != [stop - start for start, stop in blocks]:
            self._gathered = [np.empty((stop - start, len(self.groups.columns)), np.float32) for start, stop in blocks]
        a, biases = self.coefficients()
        padded = self._basis.padded(a)
        F = np.empty((len(rows), len(self.groups)), np.float32)

        def measure(index: int, start: int, stop: int) -> None:
            columns = self._gathered[index]
            self._basis.scaling.gather(rows[start:stop], self.groups, columns, tile=TILE)
            self._basis.margins(columns, padded, biases, F[start:stop], tile=TILE)

        for _ in run_all(measure, [(index, *block) for index, block in enumerate(blocks)], self._n_threads):
            pass
        return F

    def divide_margins(self, by: Floats) -> None:
        """Divide the margins of each bit by a number above 0; no bit changes by that."""
        self.weights /= by[:, None]
        self.offsets /= by

    def state(self) -> tuple[Floats, Floats]:
        """Weights and offsets, to come back to."""
        return self.weights.copy(), self.offsets.copy()

    def restore(self, state: tuple[Floats, Floats]) -> None:
        """Come back to a state."""
        self.weights[:], self.offsets[:] = state

    def gradient(self, slopes: Floats) -> tuple[Floats, Floats]:
        """Slopes of the loss in weights and offsets, for the batch that `margins` saw last."""
        pulls = np.empty((len(self._gathered), len(self.groups), self._basis.n_pad), np.float32)

        def pull(index: int, start: int, stop: int) -> None:
            self._basis.slopes(self._gathered[index], slopes[start:stop], pulls[index], tile=TILE)

        calls = [(index, *block) for index, block in enumerate(split_rows(len(slopes), _ROWS))]
        for _ in run_all(pull, calls, self._n_threads):
            pass
        totals = slopes.sum(axis=0, dtype=np.float64).astype(np.float32)
        plain = pulls.sum(axis=0)[:, : self._basis.n] - self._means * totals[:, None]
        return np.einsum("pij,pi->pj", self._axes, plain), -totals


def learn_bank(
    X: Any,
    labels: NDArray[np.int32],
    groups: Groups,
    target: SimilarityTarget,
    scaling: Scaling,
    rows: Floats,
    means: NDArray[np.float64],
    *,
    signs: Floats | None,
    deviation: float,
    n_landmarks: int,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    verbose: int = 0,
) -> tuple[Floats, Floats, Floats, NDArray[np.float64]]:
    """Learn a linear bank together, then the kernels on landmarks that start from it.

    Parameters
    ----------
    X : (n, D) training data
    labels : group of each dimension, as the linear learner takes them
    groups, target, scaling : the same groups as lists of columns, what codes should follow, and the form of kernels
    rows : (n_basis, D) samples from which landmarks, means and axes of the kernels are taken
    means, deviation : means of the data, and the root mean square of the centred data
    signs : where the linear weights start, shaped as labels; random if not given
    n_landmarks, max_iter, seed : see `KernelProjectionBank`

    Returns
    -------
    landmarks : (n_landmarks, m) float32
    coefficients : (d, n_landmarks) float32
    biases : (d,) float32
    curve : loss of the kernels' part, as `joint.descend` gives it
    """
    _, weights, _, _ = joint.learn(
        X,
        labels,
        target,
        means,
        deviation=deviation,
        n_bits=len(groups),
        max_iter=max_iter,
        signs=signs,
        seed=seed,
        n_threads=n_threads,
        verbose=verbose,
    )
    order = np.argsort(labels.T.ravel(), kind="stable")  # that of the groups' columns
    matrix = sp.csr_array((weights.T.ravel()[order], groups.columns, groups.indptr), shape=(len(groups), X.shape[1]))
    start = np.ascontiguousarray((matrix @ rows.T).T)
    model = KernelModel(rows, groups, scaling, n_landmarks, start, seed, n_threads)
    rng = np.random.default_rng([seed, 2])
    curve = joint.descend(
        X, model, target, _RATES, max_iter, seed, rng, batch=_BATCH, n_threads=n_threads, verbose=verbose
    )
    return model.landmarks, *model.coefficients(), curve


def principal_axes(K: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Axes (L, L) on which centred kernels K (n, L) have variance 1, and weights (L,) whose margins are near `start`.

    Axes of less than 1e-9 of the largest variance are taken as that; the start is scaled to variance 1.
    """
    variances, axes = np.linalg.eigh((K.T @ K / len(K)).astype(np.float64))
    if variances[-1] <= 0:
        return np.zeros_like(axes, np.float32), np.zeros(len(axes), np.float32)
    axes = axes / np.sqrt(np.maximum(variances, 1e-9 * variances[-1]))
    values = K @ axes
    wanted = start - start.mean(dtype=np.float64)
    spread = float(np.sqrt(np.mean(wanted**2, dtype=np.float64)))
    gram = values.T @ values / len(K) + _RIDGE * np.eye(len(axes))
    weights = np.linalg.solve(gram, values.T @ wanted / (len(K) * (spread if spread > 0 else 1.0)))
    return axes.astype(np.float32), weights.astype(np.float32)
