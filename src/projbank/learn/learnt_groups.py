"""Learnt groups: every dimension joins a bit that asks for what it knows.

A bit of a bank sees few dimensions, so it matters which. First a code is learnt that need not be a bank: the leading
eigenvectors of the target, as far as they are linear in x (ridge regression), and the directions in that small space
whose signs follow the target best. Then each dimension looks at some random bits, and joins the one that it correlates
with most and that has room; the sign of the correlation is where learning starts.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from projbank.kernels.nearest import score_candidates
from projbank.learn.descent import Adam, batch_size, code_loss
from projbank.learn.grouping import fill_places, fill_rest, separate_labels
from projbank.learn.target import SimilarityTarget, product, standardise
from projbank.rows.source import RowSource, row_blocks
from projbank.threads import blas_threads, run_each, split_rows

FEWEST = 64
"""Training vectors below which there is nothing to learn groups from."""

_SAMPLES, SAMPLE_BYTES = 4096, 1 << 29
"""Training vectors that groups are learnt from, and their bytes where they are held."""
_COMPONENTS = 64
"""Eigenvectors of the target."""
_RIDGE = 1.0
"""Ridge of their regression on x, in units of the mean squared length of a vector."""
_STEPS, _RATE = 100, 0.03
"""Steps of Adam for the directions of the bits."""
_CANDIDATES = (128, 16)
"""Bits that a dimension looks at, over all its groups, and at least for each."""
_COLUMNS = 4096
"""Dimensions that a thread takes together."""

Floats = NDArray[np.float32]


def learn_groups(
    rows: RowSource,
    ids: NDArray[np.int64],
    target: SimilarityTarget,
    *,
    n_bits: int,
    n_assign: int,
    seed: int,
    n_threads: int = 1,
) -> tuple[NDArray[np.int32], Floats]:
    """Groups of the dimensions, equally large, and the signs of their first weights; both (n_assign, D).

    Parameters
    ----------
    rows : (n, D) training data
    ids : ascending ids of the vectors to learn from, at least `FEWEST`
    target : similarities of the training vectors
    n_bits, n_assign : groups, and groups that a dimension serves
    """
    rng = np.random.default_rng(seed)
    most = _SAMPLES if target.kept else min(_SAMPLES, max(FEWEST, SAMPLE_BYTES // (4 * rows.shape[1])))
    if len(ids) > most:
        ids = np.sort(rng.choice(ids, most, replace=False))
    with blas_threads():
        seen = None if target.kept else rows.read(ids)
        wanted = target.of(ids, seen)
        hidden = _embed(wanted, target.cosines(ids, seen), rng, n_threads)
        directions = _learn_directions(hidden, wanted, n_bits, rng, n_threads)
        loadings = _correlate(rows, ids, hidden, n_threads)
        return choose_groups(directions, loadings, n_assign, rng, n_threads)


def choose_groups(
    directions: Floats, loadings: Floats, n_assign: int, rng: np.random.Generator, n_threads: int = 1
) -> tuple[NDArray[np.int32], Floats]:
    """Groups for the dimensions, and the signs of directions @ loadings there; both (n_assign, D).

    directions (n_bits, c), loadings (c, D). In each of `n_assign` rounds all groups have the same room, up to one
    place; a dimension asks its candidates by falling score, and a group takes those that score highest.
    """
    n_bits, n_features = len(directions), loadings.shape[1]
    labels = np.empty((n_assign, n_features), np.int32)
    signs = np.empty((n_assign, n_features), np.float32)
    places = (np.arange(n_assign * n_features).reshape(n_assign, n_features) % n_bits).astype(np.int32)
    by_dimension = np.ascontiguousarray(loadings.T)
    n_candidates = min(n_bits, max(_CANDIDATES[0] // n_assign, _CANDIDATES[1]))
    for plane in range(n_assign):
        candidates = rng.integers(0, n_bits, (n_features, n_candidates), dtype=np.int32)
        scores = np.empty(candidates.shape, np.float32)

        def score(start: int, stop: int, candidates: NDArray[np.int32] = candidates, scores: Floats = scores) -> None:
            score_candidates(directions, by_dimension[start:stop], candidates[start:stop], scores[start:stop])

        run_each(score, split_rows(n_features, _COLUMNS), n_threads)
        for earlier in labels[:plane]:
            scores[candidates == earlier[:, None]] = -np.inf
        room = np.bincount(places[plane], minlength=n_bits)
        labels[plane] = fill_rest(fill_places(candidates, scores, room), room, rng)
    labels = separate_labels(labels, n_bits)
    for plane in range(n_assign):
        products = np.einsum("jc,cj->j", directions[labels[plane]], loadings)
        signs[plane] = np.where(products < 0, -1, 1)
    return labels, signs


def _embed(wanted: Floats, cosines: Floats, rng: np.random.Generator, n_threads: int) -> Floats:
    """Leading eigenvectors of the target by subspace iteration, smoothed to what is linear in x; (n, c)."""
    n = len(wanted)
    n_components = min(_COMPONENTS, n // 2)
    basis = rng.standard_normal((n, min(n, n_components + 16)), dtype=np.float32)
    for _ in range(8):
        basis = np.linalg.qr(product(wanted, basis, n_threads))[0]
    values, vectors = np.linalg.eigh(basis.T @ product(wanted, basis, n_threads))
    vectors = (basis @ vectors[:, ::-1][:, :n_components]) * np.sqrt(n * values[::-1][:n_components].clip(0))
    ridge = cosines.copy()
    ridge[np.diag_indices(n)] += np.float32(_RIDGE * max(np.trace(cosines) / n, 1e-6))
    factor = scipy.linalg.cho_factor(ridge, lower=True, overwrite_a=True, check_finite=False)
    solved = scipy.linalg.cho_solve(factor, vectors.astype(np.float32), check_finite=False)
    return product(cosines, solved.astype(np.float32), n_threads)


def _learn_directions(hidden: Floats, wanted: Floats, n_bits: int, rng: np.random.Generator, n_threads: int) -> Floats:
    """Directions (n_bits, c) so that the signs of hidden @ directions' follow the target; margins have deviation 1."""
    directions = rng.standard_normal((n_bits, hidden.shape[1]), dtype=np.float32)
    offsets = np.zeros(n_bits, np.float32)
    adam = Adam(directions, offsets)
    batch = min(batch_size(n_bits) // 2, len(hidden))
    for _ in range(_STEPS):
        ids = rng.choice(len(hidden), batch, replace=False)
        rows = hidden[ids]
        margins = product(rows, directions.T, n_threads) - offsets
        _, slopes = code_loss(margins, standardise(wanted[np.ix_(ids, ids)]), n_threads)
        adam.step(_RATE, product(slopes.T, rows, n_threads), -slopes.sum(axis=0))
    spreads = np.sqrt(np.einsum("pc,ce,pe->p", directions, np.cov(hidden.T).astype(np.float32), directions).clip(0))
    return directions / np.maximum(spreads, np.finfo(np.float32).tiny)[:, None]


def _correlate(
    rows: RowSource,
    ids: NDArray[np.int64],
    hidden: Floats,
    n_threads: int,
) -> Floats:
    """Covariances of the embedding with the dimensions in units of their deviations, (c, D)."""
    n_features = rows.shape[1]
    means, deviations = rows.statistics()
    center = means.astype(np.float32)
    sums = np.zeros((hidden.shape[1], n_features), np.float32)
    for start, stop in row_blocks(len(ids), n_features):
        block = rows.read(ids[start:stop])
        block -= center

        def add(first: int, last: int, block: Floats = block, weights: Floats = hidden[start:stop]) -> None:
            sums[:, first:last] += weights.T @ block[:, first:last]

        run_each(add, split_rows(n_features, _COLUMNS), n_threads)
    scale = np.where(deviations > 0, deviations, 1) * len(ids)
    return np.divide(sums, scale, dtype=np.float32)
