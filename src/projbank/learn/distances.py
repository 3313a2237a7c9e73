"""The learner for distances: principal components of the rows, rotated so that bits tell how near vectors are.

Components (D x k) keep what varies most. A rotation (k x n_bits) turns them into margins, whose signs are the bits.
Up to some thousand bits it is learnt: margins come near the corners of a box, so that signs lose little. Its edges are
longer for earlier bits, which so take more of the leading components: the first 64, 128, 256, ... bits of a code are
good codes by themselves. Further bits are random orthogonal frames of all components, for which learning wins nothing.

Thresholds at the mean tell angles only. Where distances depend on lengths as well, two things make up for it. Rows'
thresholds are spread about the mean: for t uniform over a range that holds a and b, the mean of (a - t) sign(b - t)
falls with (a - b)^2, but for what depends on a alone. And queries' thresholds are moved so that bits that are typical
of short rows count for more. How much of both is what finds most of some rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from projbank.learn.components import Components, streamed_components
from projbank.learn.rotation import learn_rotation, random_frame
from projbank.learn.run import Learner, Run, chosen
from projbank.learn.target import product
from projbank.models.dense import DenseHead
from projbank.progress import progress, say
from projbank.rows.source import RowSource, check_finite
from projbank.rows.views import ChosenRows, ScaledRows, standardised

RANK = 1024
"""Components at most, unless told otherwise."""
TRAIN_SIZE = 20_000
"""Rows to learn from, at most, unless told otherwise."""
_ALL, _FIRST = 1024, 512
"""Codes up to so many bits are learnt whole; of longer ones so many bits."""
_SHORTEST, _SLOPE = 64, 0.125
"""An edge is (n_bits / b) ** slope, for the bits of the shortest of the codes of 64, 128, ... bits that has them."""
_ROUNDS = 20
_TURNED = 8192
"""Rows that the rotation is learnt from."""
_SPREADS = (0.0, 0.5, 1.0, 1.5)
"""How far from the mean thresholds may lie, in deviations of the margin."""
_SHARES, _RIDGE = (0.5, 1.0), 0.3
"""How much of what bits tell of lengths queries may take up; and how far that is held back from learning by heart."""
_ASKED, _SHOWN, _NEAREST = 256, 1024, 10
"""Queries and rows by which thresholds are chosen: by how many of the nearest they find."""

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class DistanceLearner(Learner):
    """Learns components and their rotation; parameters as those of `ProjectionBank`."""

    takes_queries: ClassVar[bool] = True

    rank: int | str
    train_size: int | str
    standardize: bool

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> DenseHead:
        """Read the rows once for components, and some of them again for their rotation."""
        ids = rows.sample(chosen(self.train_size, TRAIN_SIZE), run.seed)
        if len(ids) < rows.shape[0]:
            say(f"learning from {len(ids)} of {rows.shape[0]} rows", run.verbose)
            rows = ChosenRows(rows, ids)
        seen, scale = standardised(rows, True) if self.standardize else (rows, None)
        rank = min(*rows.shape, chosen(self.rank, min(n_bits, RANK)))
        found = streamed_components(seen, rank, run.n_threads)
        outer = self._rotation(seen, found, n_bits, run)
        biases = (found.means @ found.directions @ outer).astype(np.float32)
        deviations = np.sqrt(found.variances @ outer.astype(np.float64) ** 2)
        queries = run.queries if scale is None or run.queries is None else ScaledRows(run.queries, scale)
        model = self._placed(DenseHead(found.directions, outer, biases, biases), deviations, seen, queries, run)
        return model if scale is None else replace(model, inner=model.inner / scale[:, None])

    def _rotation(self, rows: RowSource, found: Components, n_bits: int, run: Run) -> Floats:
        """Matrix (k, n_bits): a learnt rotation of the leading components, then random frames of all of them."""
        rng = np.random.default_rng([run.seed, 3])
        k = found.directions.shape[1]
        learnt = min(k, n_bits if n_bits <= _ALL else _FIRST)
        few = ChosenRows(rows, rows.sample(_TURNED, run.seed))
        leading = found.directions[:, :learnt]
        values = np.empty((few.shape[0], learnt), np.float32)
        for start, block in few.blocks():
            centred = np.subtract(block, found.means, dtype=np.float32)
            values[start : start + len(block)] = product(centred, leading, run.n_threads)
        size = np.sqrt(np.mean(values**2, dtype=np.float64))
        values /= np.float32(max(size, 1e-30))
        matrix = np.zeros((k, n_bits), np.float32)
        with progress("rotation", _ROUNDS, run.verbose) as advance:
            turn, _ = learn_rotation(values, learnt, _ROUNDS, rng, edges=box_edges(learnt), advance=advance)
        matrix[:learnt, :learnt] = turn
        matrix[:, learnt:] = random_frame(k, n_bits - learnt, rng)
        return matrix

    def _placed(
        self, model: DenseHead, deviations: NDArray[np.float64], rows: RowSource, queries: RowSource | None, run: Run
    ) -> DenseHead:
        """Place the thresholds of rows and queries where they find most.

        Without queries some rows look for others by Euclidean distance, with the thresholds of rows or with ones that
        tell lengths. Queries look for rows by inner product, with the thresholds of rows, zeros, or their own means.
        """
        rng = np.random.default_rng([run.seed, 4])
        ids = rng.permutation(rows.sample(_ASKED + _SHOWN, run.seed))
        if queries is None:
            own, ids = np.split(ids, [len(ids) * _ASKED // (_ASKED + _SHOWN)])
            asked = rows.read(np.sort(own))
        else:
            asked = queries.read(queries.sample(_ASKED, run.seed))
            check_finite(asked, name="queries")
        shown = rows.read(np.sort(ids))
        if not len(asked):
            return model
        leading = (product(part, model.inner, run.n_threads) for part in (shown, asked))
        margins, values = (product(part, model.outer, run.n_threads) for part in leading)
        means = shown.mean(axis=0, dtype=np.float64)
        shown = np.subtract(shown, means, dtype=np.float32)
        lengths = np.zeros(len(shown), np.float32)
        if queries is None:
            lengths = np.einsum("ij,ij->i", shown, shown) / 2
            asked = np.subtract(asked, means, dtype=np.float32)
        products = product(asked, shown.T, run.n_threads)
        k = min(_NEAREST, len(shown))
        true = nearest(products - lengths, k)
        places = rng.permutation(np.linspace(-1, 1, 2 * len(deviations) + 1)[1::2]) * deviations
        best, most = model, -1.0
        for spread in _SPREADS:
            biases = (model.biases + spread * places).astype(np.float32)
            signs = np.where(margins > biases, np.float32(1), np.float32(-1))
            if queries is None:
                told = told_lengths(signs, values - model.biases, products, lengths)
                others = [model.biases + share * told for share in _SHARES]
            else:
                others = [np.zeros_like(biases), values.mean(axis=0)]
            for query_biases in (biases, *others):
                share = 0.0
                for form in (values - query_biases, np.where(values > query_biases, np.float32(1), np.float32(-1))):
                    ids = nearest(product(form, signs.T, run.n_threads), k)
                    share += float(np.mean((ids[:, :, None] == true[:, None, :]).any(axis=2)))
                if share > most:
                    best, most = replace(model, biases=biases, query_biases=query_biases), share
        return best


def told_lengths(signs: Floats, values: Floats, products: Floats, lengths: Floats) -> Floats:
    """Thresholds of queries by which sums of bits tell lengths as well, (n_bits,), by ridge regression.

    signs (n, n_bits) of rows; values (m, n_bits) of queries; products (m, n) of both, that sums of values times bits
    are in proportion to; lengths (n,), what is to be subtracted from products.
    """
    centred = signs - signs.mean(axis=0)
    sums = values @ centred.T
    products = products - products.mean(axis=1, keepdims=True)
    slope = float(np.vdot(sums, products)) / max(float(np.vdot(products, products)), 1e-30)
    squares = (centred @ centred.T).astype(np.float64)
    squares[np.diag_indices_from(squares)] += _RIDGE * len(signs)
    weights = scipy.linalg.solve(squares, slope * (lengths - lengths.mean(dtype=np.float64)), assume_a="pos")
    return np.asarray(centred.T @ weights, np.float32)


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
