"""A reduced basis: each group's many basis samples replaced by a few landmarks of its own, coefficients refitted.

In a group's few dimensions g is a smooth function, so few kernels can stand for many. The landmarks are k-means centres
of the basis samples in those dimensions; their coefficients are the ridge regression of g on the landmarks' kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.mercer_groups import move_to_means
from projbank.learn.run import Run
from projbank.models.mercer import Basis, Scaling
from projbank.models.mercer_bank import MercerBank
from projbank.progress import progress
from projbank.threads import blas_threads, run_all, split_rows

_KMEANS_ITER = 10
RIDGE = 1e-4
"""Ridge, in units of the mean squared length of the landmarks' kernels."""
_GROUPS = 16

Floats = NDArray[np.float32]


def with_landmarks(model: MercerBank, n_landmarks: int, width: float, run: Run) -> MercerBank:
    """Return a bank with so many landmarks in place of its basis; `width`: of their RBF kernels, in units of sigma."""
    scaling = model.form
    wide = replace(model, scales=model.scales * np.float32(width)) if model.kernel == "rbf" else model
    wide_scaling = wide.form
    if not (isinstance(scaling, Scaling) and isinstance(wide_scaling, Scaling)):
        raise TypeError("Landmarks are for built-in kernels. Got a bank whose kernel is a function.")
    rows, groups, n_landmarks = model.basis, model.groups, min(n_landmarks, len(model.basis))
    landmarks = np.empty((n_landmarks, len(groups.columns)), np.float32)
    few = np.empty((len(groups), n_landmarks), np.float32)
    offsets = np.empty(len(groups), np.float32)

    def reduce(first: int, last: int) -> int:
        part, place = groups.part(first, last), slice(int(groups.indptr[first]), int(groups.indptr[last]))
        own, values = scaling.part(place), rows[:, part.columns]
        basis, targets = Basis(part, own, values), np.empty((len(rows), len(part)), np.float32)
        coefficients = basis.padded(model.coefficients[first:last])
        basis.margins(own.scaled(values), coefficients, model.biases[first:last], targets, tile=len(part))
        centers = landmarks[:, place]
        for t in range(len(part)):
            rng = np.random.default_rng([run.seed, first + t])
            centers[:, part.own(t)] = choose_landmarks(values[:, part.own(t)], n_landmarks, rng)
        own = wide_scaling.part(place)
        small, U = Basis(part, own, np.ascontiguousarray(centers)), own.scaled(values)
        K = np.empty((len(rows), n_landmarks), np.float32)
        for t in range(len(part)):
            small.matrix(U, t, K)
            few[first + t], offsets[first + t] = regress(K, targets[:, t])
        return last - first

    with blas_threads(), progress("choosing landmarks", len(groups), run.verbose) as advance:
        for done in run_all(reduce, split_rows(len(groups), _GROUPS), run.n_threads):
            advance(done)
    return replace(wide, basis=rows[:0], landmarks=landmarks, coefficients=few, biases=offsets)


def choose_landmarks(values: Floats, n_landmarks: int, rng: np.random.Generator) -> Floats:
    """(n_landmarks, m) k-means centres of samples (n, m), from randomly drawn ones.

    The samples are measured from their mean, so that rounding does not depend on it.
    """
    means = values.mean(axis=0, dtype=np.float64).astype(np.float32)
    samples = np.ascontiguousarray(values - means)
    first = np.sort(rng.choice(len(values), n_landmarks, replace=False))
    centers = np.ascontiguousarray(samples[first].T)
    move_to_means(samples, centers, _KMEANS_ITER)
    return np.ascontiguousarray(centers.T + means)


def regress(K: Floats, g: NDArray[np.floating]) -> tuple[NDArray[np.float64], float]:
    """Coefficients c and bias b for which K c - b is nearest to g (n,), by ridge regression; K (n, L).

    The mean of K c - b is that of g.
    """
    means, level = K.mean(axis=0, dtype=np.float64), float(np.mean(g, dtype=np.float64))
    centered = K - means
    gram = centered.T @ centered
    size = float(np.trace(gram)) / len(gram)
    if size <= 0:
        return np.zeros(len(gram)), -level
    gram[np.diag_indices_from(gram)] += RIDGE * size
    coefficients = np.linalg.solve(gram, centered.T @ (g - level))
    return coefficients, float(means @ coefficients) - level
