"""The dense head: bits that are chosen together, so that inner products with queries are told by sums of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.descent import centre, descend
from projbank.kernels.head import WIDTH, multiply, panels
from projbank.kernels.pack import pack_above
from projbank.models.bank import block_bounds
from projbank.models.file import ModelFileError
from projbank.models.model import Floats, Model
from projbank.rows.source import RowSource

BLOCK = 48
"""Rows that are coded together."""
_CHOSEN = 2048
"""Bits that are chosen together, at most; later ones stay the signs that they start from."""
_GROWTH = np.array([0.03, 0.1, 0.3, 1, 1], np.float32)
"""How much the error for a row's own queries counts, round by round: bits have room at first."""
_SHORTEST, _SHARE = 64, 0.1
"""The shortest of the nested codes, each twice as long as the one before; and how much one counts beside all bits."""


class Near(NamedTuple):
    """Queries that look for a row x are slopes * x + intercepts on average, and spread by the roots of `spreads`."""

    slopes: Floats
    intercepts: Floats
    spreads: Floats


@dataclass(frozen=True)
class DenseHead(Model):
    """Coordinates x of a row: (row - means) * factors inner, and half its squared length less a constant.

    Bits s of 1 and -1 stand for the sum of their columns, x ~ outer s, and the score of a query with coordinates q, the
    last of them -1, is q outer s. Bits are chosen so that scores tell inner products, less half of squared lengths, for
    those queries that look for the row: with their mean n and spreads v about it, sum(v e^2) + (n e)^2 is made small,
    e = x - outer s, for all bits. The first 64, 128, ... of them stand for a part of x each, e = scale x - outer s.
    Margins are half of what the other value of a bit would add.

    means, factors (D,); inner (D, k); outer (k + 1, n_bits); near (3, k + 1): `Near`; constants (2,): whether lengths
    count, 1 or 0, and what is subtracted from them; scales (P,) and offsets (P,), n e on average: of each of the codes
    in `nested`; query_biases (n_bits,), for margins of queries; all float32.
    """

    means: Floats
    factors: Floats
    inner: Floats
    outer: Floats
    near: Floats
    constants: Floats
    scales: Floats
    offsets: Floats
    query_biases: Floats
    loss_curve: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    names = (
        "means",
        "factors",
        "inner",
        "outer",
        "near",
        "constants",
        "scales",
        "offsets",
        "query_biases",
        "loss_curve",
    )
    has_query_bits = True

    @classmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]], params: dict[str, Any]) -> Self:
        """Check the arrays of a file and build the head."""
        floats = [arrays[name] for name in cls.names[:-1]]
        shapes = {name: array.shape for name, array in arrays.items()}
        inner, outer = arrays["inner"], arrays["outer"]
        if inner.ndim != 2 or outer.ndim != 2 or 0 in (*inner.shape, *outer.shape):
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        (n_features, rank), n_bits = inner.shape, outer.shape[1]
        wanted = {
            "means": (n_features,),
            "factors": (n_features,),
            "inner": (n_features, rank),
            "outer": (rank + 1, n_bits),
            "near": (3, rank + 1),
            "constants": (2,),
            "scales": (len(nested(n_bits)[0]),),
            "offsets": (len(nested(n_bits)[0]),),
            "query_biases": (n_bits,),
        }
        if any(arrays[name].shape != shape for name, shape in wanted.items()):
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        kinds = [str(array.dtype) for array in floats]
        if set(kinds) != {"float32"}:
            raise ModelFileError(f"arrays have the wrong types: {', '.join(kinds)}")
        if not all(np.isfinite(array).all() for array in floats) or arrays["scales"].min() <= 0:
            raise ModelFileError("matrices or biases are not finite, or scales not above 0")
        return cls(**{name: arrays[name] for name in cls.names})

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.inner)

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self.outer.shape[1]

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Dimensions that each bit sees: all."""
        return np.full(self.n_bits, self.n_features)

    def write(self, rows: RowSource, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of rows."""
        self.prepare()
        _ = self._inner
        rows.write(self._code, out, block_bounds(rows, n_threads), n_threads=n_threads, verbose=verbose)

    def query_values(self, rows: RowSource, *, n_threads: int = 1, verbose: int = 0) -> Floats:
        """Queries for asymmetric search, (n, n_bits), linear in the query; above 0 are the bits of a query."""
        _ = self._inner, self._panels
        out = np.empty((rows.shape[0], self.n_bits), np.float32)
        rows.write(self._value, out, block_bounds(rows, n_threads), n_threads=n_threads, verbose=verbose)
        return out

    def prepare(self) -> None:
        """Compute what `chosen` needs once, before threads do."""
        _ = self._panels, self._gram, self._nested

    def coordinates(self, rows: Floats) -> Floats:
        """Coordinates of a block of rows, (n, k + 1)."""
        centred, halves = np.empty(rows.shape, np.float32), np.empty(len(rows))
        centre(rows, self.means, self.factors, centred, halves)
        found = np.empty((len(rows), len(self.outer)), np.float32)
        found[:, :-1] = _product(centred, self._inner, len(self.outer) - 1)
        found[:, -1] = self.constants[0] * halves - self.constants[1]
        return found

    def chosen(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Bits, 1 or -1, of rows with given coordinates, and margins, both (n, n_bits)."""
        outer, back = self._panels
        near, m = Near(*self.near), len(self._gram)
        ends, weights = self._nested
        margins = self._plain(coordinates)
        signs = np.where(margins > 0, np.float32(1), np.float32(-1))
        asked = near.slopes * coordinates + near.intercepts
        left, told = [], np.zeros_like(coordinates)
        for scale, (start, end) in zip(self.scales, pairwise([0, *ends]), strict=True):
            told += _product(signs[:, start:end], back[:, start:end], len(self.outer))
            left.append(scale * coordinates - told)
        rests = np.stack([(asked * one).sum(axis=1) for one in left], axis=1) - self.offsets
        fields, some = np.empty((len(signs), m), np.float32), np.zeros_like(coordinates)
        for p, (start, end) in reversed(list(enumerate(pairwise([0, *np.minimum(ends, m)])))):
            some += weights[p] * left[p]
            if start < end:
                part = outer[start // WIDTH : -(-end // WIDTH)]
                fields[:, start:end] = _product(near.spreads * some, part, end - start)
        shares = _product(asked, outer, self.n_bits)
        descend(self._gram, shares, ends, weights**2, _GROWTH, rests, fields, signs, margins)
        return signs, margins

    def _plain(self, coordinates: Floats) -> Floats:
        """What bits start from."""
        known = coordinates.copy()
        known[:, -1] = 0
        return _product(known, self._panels[0], self.n_bits)

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        """Code a block of rows, few at a time."""
        is_finite = True
        for start in range(0, len(rows), BLOCK):
            few = slice(start, start + BLOCK)
            coordinates = self.coordinates(rows[few])
            is_finite &= bool(np.isfinite(coordinates).all())
            margins = self.chosen(coordinates)[1]
            if out.dtype == np.uint8:
                pack_above(margins, np.zeros(self.n_bits, np.float32), out[few])
            else:
                out[few] = margins
        return is_finite

    def _value(self, rows: Floats, out: NDArray[Any]) -> bool:
        """Values of a block of queries, few at a time."""
        is_finite = True
        for start in range(0, len(rows), BLOCK):
            few = slice(start, start + BLOCK)
            coordinates = self.coordinates(rows[few])
            is_finite &= bool(np.isfinite(coordinates).all())
            coordinates[:, -1] = 0
            np.subtract(_product(coordinates, self._panels[0], self.n_bits), self.query_biases, out=out[few])
        return is_finite

    @cached_property
    def _inner(self) -> Floats:
        """The matrix of components as the kernel wants it."""
        return panels(self.inner)

    @cached_property
    def _panels(self) -> tuple[Floats, Floats]:
        """The matrix of columns, and turned, as the kernel wants it."""
        return panels(self.outer), panels(self.outer.T)

    @cached_property
    def _nested(self) -> tuple[NDArray[np.int64], Floats]:
        """Lengths of the nested codes, and how much their errors count, which grow with `scales`."""
        ends, weights = nested(self.n_bits)
        return ends, weights / self.scales**2

    @cached_property
    def _gram(self) -> Floats:
        """Inner products of the columns that are chosen, weighted by spreads, (m, m)."""
        columns = self.outer[:, :_CHOSEN]
        weighted = columns * Near(*self.near).spreads[:, None]
        count = counts(*self._nested)
        return _product(weighted.T, panels(columns), columns.shape[1]) * np.minimum(count[:, None], count)


def nested(n_bits: int) -> tuple[NDArray[np.int64], Floats]:
    """Lengths of codes, the last of them whole, that are good codes by themselves; and how much each counts."""
    ends = np.array([_SHORTEST << i for i in range(n_bits.bit_length()) if _SHORTEST << i < n_bits] + [n_bits])
    weights = np.full(len(ends), _SHARE, np.float32)
    weights[-1] = 1
    return ends, weights


def counts(ends: NDArray[np.int64], weights: Floats) -> Floats:
    """How much the codes that have a bit count together, for those bits that are chosen together, (m,)."""
    return np.array([weights[ends > bit].sum() for bit in range(min(int(ends[-1]), _CHOSEN))], np.float32)


def _product(rows: Floats, matrix: Floats, n_columns: int) -> Floats:
    """Rows times a matrix that was cut into panels; a row gets the same numbers in any block."""
    out = np.empty((len(rows), WIDTH * len(matrix)), np.float32)
    multiply(np.ascontiguousarray(rows), np.ascontiguousarray(matrix), out)
    return np.ascontiguousarray(out[:, :n_columns])
