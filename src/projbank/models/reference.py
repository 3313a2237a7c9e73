"""What codes of vectors look like that a bank was not learnt from: kept with it, to see later whether data drift."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from projbank.bits import code_bytes, pack, unpack
from projbank.rows.source import RowSource
from projbank.threads import split_rows

MOST = 2_000
"""Vectors at most of which is kept, or looked at, what their codes are like."""
FEWEST = 20
GROUP = 128
"""Recall is taken among so many vectors, so that it means the same for any number of them."""
NEAREST = 10
_REMEMBERED = 256
"""Vectors learnt from whose checksums are kept."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Reference:
    """Codes of some vectors, how sure their bits are, and how well each finds its neighbours.

    codes (n, ceil(n_bits / 8)) uint8; certainty (n,) float32: mean logarithm of a vector's absolute margins; recall
    (n,) float32: share of a vector's ten nearest among 128 vectors that its code finds, NaN where there are too few;
    learnt (k,) uint64: checksums of some vectors that the bank was learnt from, which belong to no reference.
    """

    codes: NDArray[np.uint8]
    certainty: Floats
    recall: Floats
    learnt: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    @classmethod
    def of(cls, bank: Any, rows: RowSource, ids: NDArray[np.int64]) -> Self:
        """Look at the rows of the given ascending ids, some of them where they are many; groups are drawn by chance."""
        rng = np.random.default_rng(len(ids))
        ids = _some(rng, ids, MOST)
        recall = np.full(len(ids), np.nan, np.float32)
        n_bits = int(bank.n_bits_)
        codes, certainty = np.empty((len(ids), code_bytes(n_bits)), np.uint8), np.empty(len(ids), np.float32)
        order = rng.permutation(len(ids))
        for start, stop in split_rows(len(ids), GROUP):
            places = np.sort(order[start:stop])
            vectors = rows.read(ids[places])
            margins = bank.decision_function(vectors)
            codes[places] = pack(margins > 0)
            sizes = np.maximum(np.abs(margins), np.finfo(np.float32).tiny)
            certainty[places] = np.log(sizes).mean(axis=1, dtype=np.float64)
            if len(places) == GROUP:
                recall[places] = _recall(vectors, codes[places], n_bits)
        return cls(codes, certainty, recall)

    @classmethod
    def beside(cls, bank: Any, rows: RowSource, learnt: NDArray[np.int64]) -> Self:
        """Look at the rows that are not among the ascending ids of those that a bank was learnt from."""
        found = cls.of(bank, rows, np.setdiff1d(np.arange(rows.shape[0]), learnt))
        return replace(found, learnt=keys(rows, _some(np.random.default_rng(len(learnt)), learnt, _REMEMBERED)))

    @classmethod
    def of_arrays(cls, codes: NDArray[Any], values: NDArray[Any], learnt: NDArray[Any], n_bits: int) -> Self:
        """Check the arrays of a file; ValueError where they do not fit each other or the bank."""
        kinds = [str(array.dtype) for array in (codes, values, learnt)]
        if kinds != ["uint8", "float32", "uint64"]:
            raise ValueError(f"its reference has the wrong types: {', '.join(kinds)}")
        if codes.shape != (len(values), code_bytes(n_bits)) or values.shape[1:] != (2,) or learnt.ndim != 1:
            raise ValueError(f"its reference has the wrong shapes: {codes.shape}, {values.shape}, {learnt.shape}")
        if not np.isfinite(values[:, 0]).all():
            raise ValueError("its reference holds NaN or infinity")
        return cls(codes, values[:, 0], values[:, 1], learnt)

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], Floats, NDArray[np.uint64]]:
        """Codes, certainty beside recall, and checksums, as a file keeps them."""
        return self.codes, np.stack([self.certainty, self.recall], axis=1), self.learnt

    def __len__(self) -> int:
        return len(self.codes)


def looked_at(n_rows: int, learnt: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending ids of the rows that `Reference.beside` reads beside those learnt from."""
    others = np.setdiff1d(np.arange(n_rows), learnt)
    return _some(np.random.default_rng(len(others)), others, MOST)


def left_over(rows: RowSource, set_aside: int, seed: int) -> NDArray[np.int64]:
    """Ascending ids of the rows to learn from, where some are set aside."""
    if set_aside > rows.shape[0] - 2:
        raise ValueError(f"set_aside must leave 2 rows to learn from. Got {set_aside} of {rows.shape[0]} rows.")
    everything = np.arange(rows.shape[0])
    return np.setdiff1d(everything, rows.sample(set_aside, seed)) if set_aside else everything


def keys(rows: RowSource, ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Checksums of the rows of the given ascending ids."""
    return np.array([xxhash.xxh3_64_intdigest(rows.read(ids[i : i + 1]).data) for i in range(len(ids))], np.uint64)


def _some(rng: np.random.Generator, ids: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    return np.sort(rng.permutation(ids)[:most])


def _recall(vectors: Floats, codes: NDArray[np.uint8], n_bits: int) -> Floats:
    """Share of the nearest of each vector that are among the nearest by codes."""
    wide = vectors.astype(np.float64)
    wide -= wide.mean(axis=0)
    squares = np.einsum("ij,ij->i", wide, wide)
    floats = squares[:, None] + squares - 2 * (wide @ wide.T)
    signs = np.where(unpack(codes, n_bits), np.float32(1), np.float32(-1))
    distances = -(signs @ signs.T)
    np.fill_diagonal(floats, np.inf)
    np.fill_diagonal(distances, np.inf)
    true = np.argsort(floats, axis=1, kind="stable")[:, :NEAREST]
    found = np.argsort(distances, axis=1, kind="stable")[:, :NEAREST]
    return np.array([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)], np.float32)
