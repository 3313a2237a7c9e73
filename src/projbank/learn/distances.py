"""The learner for distances: principal components of the rows, and bits that are chosen together to tell them.

Components (D x k) keep what varies most. A rotation (k x n_bits) turns them into margins, whose signs are the first
bits: margins come near the corners of a box, so that signs lose little. Its edges are longer for earlier bits, which
so take more of the leading components: the first 64, 128, 256, ... bits of a code are good codes by themselves. Codes
of more than a thousand bits start with a rotation of the first 256 components, and go on with further ones of all.

Then each bit gets a column, and a row's components and length are told by the sum of its bits' columns. Columns and
bits are learnt in turns: columns by ridge regression that holds on to the rotation, bits by descent (`DenseHead`). What
counts is what queries make of it: a row's error is weighed by the mean and the spread of those queries that find it
among their nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from projbank.learn.components import streamed_components
from projbank.learn.rotation import learn_rotation
from projbank.learn.run import Learner, Run, chosen
from projbank.learn.target import product
from projbank.models.dense import BLOCK, DenseHead, Near, counts, nested
from projbank.progress import progress, say
from projbank.rows.source import RowSource, check_finite
from projbank.rows.views import ChosenRows, standardised
from projbank.threads import run_each, split_rows

RANK = 1024
"""Components at most, unless told otherwise."""
TRAIN_SIZE = 20_000
"""Rows to learn from, at most, unless told otherwise."""
_ALL, _FIRST = 1024, 256
"""Codes up to so many bits have one rotation; longer ones one of so many bits, and then others of all components."""
_SHORTEST, _SLOPE = 64, 0.25
"""An edge is (n_bits / b) ** slope, for the bits of the shortest of the codes of 64, 128, ... bits that has them."""
_ROUNDS = 20
_TURNED = 8192
"""Rows that rotation and columns are learnt from."""
_TURNS = 3
"""Turns of columns and bits."""
_HOLD, _HOLDS = 4.0, (0.1, 0.5, 2, 8, 32)
"""How strongly columns hold on to the rotation, against learning by heart; and how far bits are held back from telling
lengths: what finds most."""
_ASKED, _SHOWN, _NEAREST = 600, 1200, 10
"""Queries of which it is known how they differ from their nearest; rows to find; what counts as nearest."""

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class DistanceLearner(Learner):
    """Learns components, their rotation and columns; parameters as those of `ProjectionBank`."""

    takes_queries: ClassVar[bool] = True

    rank: int | str
    train_size: int | str
    standardize: bool

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> DenseHead:
        """Read the rows once for components, and some of them again for rotation and columns."""
        ids = rows.sample(chosen(self.train_size, TRAIN_SIZE), run.seed)
        if len(ids) < rows.shape[0]:
            say(f"learning from {len(ids)} of {rows.shape[0]} rows", run.verbose)
            rows = ChosenRows(rows, ids)
        seen, scale = standardised(rows, True) if self.standardize else (rows, np.ones(rows.shape[1], np.float32))
        rank = min(*rows.shape, chosen(self.rank, min(n_bits, RANK)))
        found = streamed_components(seen, rank, run.n_threads)
        rank = found.directions.shape[1]
        size = np.float32(max(np.sqrt(found.variances.mean()), 1e-30))
        model = DenseHead(
            means=(found.means * scale).astype(np.float32),
            factors=(1 / (scale * size)).astype(np.float32),
            inner=found.directions,
            outer=np.zeros((rank + 1, n_bits), np.float32),
            near=np.zeros((3, rank + 1), np.float32),
            constants=np.array([run.queries is None, 0], np.float32),
            scales=np.ones(len(nested(n_bits)[0]), np.float32),
            offsets=np.zeros(len(nested(n_bits)[0]), np.float32),
            query_biases=np.zeros(n_bits, np.float32),
        )
        few = coordinates(model, ChosenRows(rows, rows.sample(_TURNED, run.seed)), run.n_threads)
        offset = few[:, -1].mean(dtype=np.float64)
        few[:, -1] -= offset
        model.constants[1] = offset
        near, trial = self._near(model, few, run)
        model = replace(model, near=np.stack(near))
        model = learnt_columns(model, few, trial, self._rotation(few[:, :-1], n_bits, run), run)
        biases = model.outer[-1]
        if run.queries is not None:
            biases = biases - origin(model) @ model.outer[:-1]
        return replace(model, query_biases=biases)

    def _near(self, model: DenseHead, few: Floats, run: Run) -> tuple[Near, Trial]:
        """Queries among whose nearest a row is, by linear regression on the row, each coordinate by itself.

        Without queries rows look for each other by Euclidean distance, else queries for rows by inner product.
        """
        rng = np.random.default_rng([run.seed, 4])
        own = np.empty(0, np.int64)
        if run.queries is None:
            own = rng.permutation(len(few))[: min(_ASKED, len(few) // 2)]
            asked = few[own, :-1]
        else:
            some = ChosenRows(run.queries, run.queries.sample(_ASKED, run.seed))
            check_finite(some.read(np.arange(some.shape[0])), name="queries")
            asked = coordinates(model, some, run.n_threads)[:, :-1] + origin(model)
        scores = product(asked, few[:, :-1].T, run.n_threads) - few[:, -1]
        scores[np.arange(len(own)), own] = -np.inf
        ids = nearest(scores, min(_NEAREST, len(few) - 1))
        pairs = np.repeat(asked, ids.shape[1], axis=0), few[ids.ravel(), :-1]
        means = [part.mean(axis=0, dtype=np.float64) for part in pairs]
        queries, rows = (np.subtract(part, mean, dtype=np.float32) for part, mean in zip(pairs, means, strict=True))
        squares, both = (np.einsum("ij,ij->j", rows, other) for other in (rows, queries))
        slopes = np.maximum(both, 0) / np.maximum(squares, 1e-30)
        queries -= slopes * rows
        found = slopes, means[0] - slopes * means[1], np.mean(queries**2, axis=0)
        near = Near(*(np.append(part, last).astype(np.float32) for part, last in zip(found, (0, -1, 0), strict=True)))
        others = np.delete(np.arange(len(few)), own)
        shown = few[rng.permutation(others)[:_SHOWN]]
        scores = product(asked, shown[:, :-1].T, run.n_threads) - shown[:, -1]
        asked = np.hstack([asked, np.full((len(asked), 1), -1, np.float32)])
        return near, Trial(asked, shown, nearest(scores, min(_NEAREST, len(shown))))

    def _rotation(self, values: Floats, n_bits: int, run: Run) -> Floats:
        """Matrix (k, n_bits): learnt rotations of leading components, one beside the other."""
        rng = np.random.default_rng([run.seed, 3])
        k = values.shape[1]
        widths = [min(k, n_bits if n_bits <= _ALL else _FIRST)]
        while sum(widths) < n_bits:
            widths.append(min(k, n_bits - sum(widths)))
        matrix, start = np.zeros((k, n_bits), np.float32), 0
        with progress("rotation", _ROUNDS * len(widths), run.verbose) as advance:
            for width in widths:
                leading = np.ascontiguousarray(values[:, :width])
                leading /= np.float32(max(np.sqrt(np.mean(leading**2, dtype=np.float64)), 1e-30))
                edges = np.ones(width, np.float32) if start else box_edges(width)
                turn, _ = learn_rotation(leading, width, _ROUNDS, rng, edges=edges, advance=advance)
                matrix[:width, start : start + width] = turn
                start += width
        return matrix


def learnt_columns(model: DenseHead, few: Floats, trial: Trial, rotation: Floats, run: Run) -> DenseHead:
    """Learn columns for the bits of some rows with coordinates (n, k + 1), and those bits, in turns; keep the best."""
    signs = np.where(product(few[:, :-1], rotation, run.n_threads) > 0, np.float32(1), np.float32(-1))
    best, most = model, -1.0
    with progress("columns", _TURNS, run.verbose) as advance:
        for turn in range(_TURNS):
            if turn:
                signs = _chosen(model, few, run.n_threads)
            ways = list(_fitted(model, few, signs, rotation, run.n_threads))
            shares = [trial.found(way, run.n_threads) for way in ways]
            model = ways[int(np.argmax(shares))]
            if max(shares) > most:
                best, most = model, max(shares)
            advance(1)
    return best


class Trial(NamedTuple):
    """Queries (m, k + 1) and rows (n, k + 1) by coordinates, and the nearest rows of each query: what codes find."""

    asked: Floats
    shown: Floats
    true: Ids

    def found(self, model: DenseHead, n_threads: int) -> float:
        """Share of the nearest that codes find, Hamming and asymmetric, summed over nested codes by their weights."""
        signs, values = _chosen(model, self.shown, n_threads), product(self.asked, model.outer, n_threads)
        total = 0.0
        for end, weight in zip(*nested(model.n_bits), strict=True):
            for form in (values, np.where(values > 0, np.float32(1), np.float32(-1))):
                ids = nearest(product(form[:, :end], signs[:, :end].T, n_threads), self.true.shape[1])
                total += float(weight) * float(np.mean((ids[:, :, None] == self.true[:, None, :]).any(axis=2)))
        return total


def coordinates(model: DenseHead, rows: RowSource, n_threads: int) -> Floats:
    """Coordinates of all rows, (n, k + 1)."""
    out = np.empty((rows.shape[0], len(model.outer)), np.float32)

    def write(start: int, stop: int) -> None:
        out[start:stop] = model.coordinates(rows.block(start, stop))

    run_each(write, split_rows(len(out), BLOCK), n_threads)
    return out


def origin(model: DenseHead) -> Floats:
    """What the means lie at, (k,): to be added to coordinates where inner products count."""
    return np.asarray((model.means * model.factors) @ model.inner, np.float32)


def _chosen(model: DenseHead, few: Floats, n_threads: int) -> Floats:
    """Signs of the bits of rows with given coordinates."""
    signs = np.empty((len(few), model.n_bits), np.float32)

    def write(start: int, stop: int) -> None:
        signs[start:stop] = model.chosen(few[start:stop])[0]

    model.prepare()
    run_each(write, split_rows(len(few), BLOCK), n_threads)
    return signs


def _fitted(model: DenseHead, few: Floats, signs: Floats, rotation: Floats, n_threads: int) -> Iterator[DenseHead]:
    """Models with columns for given bits: ridge regression for all nested codes at once.

    They differ by how far bits are held back from telling lengths.
    """
    near, known = Near(*model.near), few[:, :-1]
    ends, weights = nested(model.n_bits)
    told = product(signs, rotation.T, n_threads)
    weighted = near.spreads[:-1] * told
    share = np.float32(np.vdot(weighted, known) / max(float(np.vdot(weighted, told)), 1e-30))
    columns = share * rotation
    scales = _scales(known, near.spreads[:-1], signs, columns, ends, n_threads)
    weights = weights / scales**2
    count = counts(ends, weights)
    m = len(count)
    first = np.ascontiguousarray(signs[:, :m])
    squares = product(first.T, first, n_threads)
    squares *= np.minimum(count[:, None], count)

    def solve(wanted: Floats, hold: float) -> Floats:
        held = squares.copy()
        held[np.diag_indices_from(held)] += np.float32(hold * len(few)) * count
        factor = scipy.linalg.cho_factor(held, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(scipy.linalg.cho_solve(factor, wanted, check_finite=False), np.float32)

    wanted = np.zeros((m, known.shape[1]), np.float32)
    for end, weight, left in zip(ends, weights, _left(known, scales, signs, columns, ends, n_threads), strict=True):
        wanted[:end] += weight * product(first[:, :end].T, left, n_threads)
    columns[:, :m] += solve(wanted, _HOLD).T
    asked = near.slopes[:-1] * known + near.intercepts[:-1]
    targets, sums = np.empty((len(few), len(ends)), np.float32), np.zeros(m, np.float32)
    for p, left in enumerate(_left(known, scales, signs, columns, ends, n_threads)):
        targets[:, p] = scales[p] * few[:, -1] - np.einsum("ij,ij->i", asked, left)
        sums[: ends[p]] += weights[p] * (first[:, : ends[p]].T @ (targets[:, p] - targets[:, p].mean()))
    for hold in _HOLDS:
        lengths = np.zeros(model.n_bits, np.float32)
        lengths[:m] = solve(sums, hold)
        told = np.stack([signs[:, :end] @ lengths[:end] for end in ends], axis=1)
        offsets = np.asarray((told - targets).mean(axis=0), np.float32)
        yield replace(model, outer=np.vstack([columns, lengths]), scales=scales, offsets=offsets)


def _scales(values: Floats, spreads: Floats, signs: Floats, columns: Floats, ends: Ids, n_threads: int) -> Floats:
    """The part of values (n, k) that the first bits stand for, for each of the ascending ends; 1 for all bits."""
    told, found = np.zeros_like(values), np.ones(len(ends))
    for p, (start, end) in enumerate(pairwise([0, *ends[:-1]])):
        told += product(signs[:, start:end], columns[:, start:end].T, n_threads)
        weighted = spreads * told
        found[p] = np.vdot(weighted, told) / max(float(np.vdot(weighted, values)), 1e-30)
    return np.asarray(np.clip(found, 1e-3, 1), np.float32)


def _left(
    values: Floats, scales: Floats, signs: Floats, columns: Floats, ends: Ids, n_threads: int
) -> Iterator[Floats]:
    """What is left of scaled values (n, k) by the first bits, as many as each of the ascending ends."""
    told = np.zeros_like(values)
    for scale, (start, end) in zip(scales, pairwise([0, *ends]), strict=True):
        told += product(signs[:, start:end], columns[:, start:end].T, n_threads)
        yield scale * values - told


def box_edges(n_bits: int) -> Floats:
    """Half the edges of the box that margins are brought near to: longer for the bits of shorter codes, (n_bits,)."""
    edges = np.ones(n_bits)
    sizes = [_SHORTEST << i for i in range(n_bits.bit_length()) if _SHORTEST << i < n_bits]
    for stop in reversed(sizes):
        edges[:stop] = (n_bits / stop) ** _SLOPE
    return np.asarray(edges / np.sqrt(np.mean(edges**2)), np.float32)


def nearest(similarities: Floats, k: int) -> Ids:
    """Columns of the k largest of each row, (n, k), falling; ties go to the smaller column."""
    return np.argsort(-similarities, axis=1, kind="stable")[:, :k]
