"""What every store can do, and what all of them share: checks, batches, and ties that go to the smaller id."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, clear_padding
from projbank.params import check_choice, check_int
from projbank.search.ids import check_ids
from projbank.search.scan import sort_pairs
from projbank.threads import split_rows

NOTHING = np.iinfo(np.int32).max
"""Distance in the places that an approximate search leaves empty; the id there is -1."""


class IndexKind(NamedTuple):
    """How a store searches: "flat" (exact), "ivf" with so many lists, or "hnsw"."""

    name: str
    n_lists: int = 0


FLAT = IndexKind("flat")


def import_extra(module: str, extra: str) -> Any:
    """Import an engine's module, or name the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"This store needs {module}: pip install projbank[{extra}]") from error


class CodeStore(ABC):
    """Packed codes with ids, kept by some engine.

    A store is created once with the length of its codes, filled in batches, and searched. It is exact until
    `build_index` makes it approximate. It closes itself as a context manager.
    """

    index_kinds: ClassVar[tuple[str, ...]]
    """Approximate indexes that `build_index` can make."""
    orders_ties: ClassVar[bool] = False
    """Whether the engine itself prefers the smaller id among equals in a flat search."""

    @property
    def n_bits(self) -> int:
        """Length of a code; an error if the store was not created yet."""
        n_bits = self._stored_bits()
        if n_bits is None:
            raise FileNotFoundError(f"{self._where()}: there is no store yet; create it first.")
        return n_bits

    def create(self, n_bits: int) -> Self:
        """Make an empty store; one that exists with the same length is left as it is, with another it is an error."""
        n_bits, stored = check_int(self, "n_bits", n_bits, 1), self._stored_bits()
        if stored is None:
            self._create(n_bits)
        elif stored != n_bits:
            raise ValueError(f"{self._where()}: holds codes of {stored} bits. Got n_bits={n_bits}.")
        return self

    def count(self) -> int:
        """Number of codes; an error if the store was not created yet."""
        return self._count() if self.n_bits else 0

    @abstractmethod
    def drop(self) -> None:
        """Delete the store and all its codes; nothing happens if there is none."""

    @abstractmethod
    def close(self) -> None:
        """Write what is not written yet and let the engine go."""

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None, *, batch_rows: int = 10_000) -> Self:
        """Add codes in batches, each of them whole or not at all.

        Parameters
        ----------
        codes : uint8 (n, ceil(n_bits / 8)); an array or a memory map
        ids : int64 (n,), optional
            Distinct, not negative, new; by default they continue after the largest one.
        batch_rows : codes per batch

        Raises
        ------
        ValueError
            If codes or ids do not fit; nothing is added.
        ConnectionError
            If the engine is lost; it says how many codes were stored before, in whole batches.
        """
        batch_rows = check_int(type(self).__name__ + ".add", "batch_rows", batch_rows, 1)
        n_bits = self.n_bits
        array = check_codes(codes, n_bits)
        if ids is None:
            start = self._largest_id() + 1
            new_ids = np.arange(start, start + len(array), dtype=np.int64)
        else:
            new_ids = check_ids(ids, len(array))
            self._check_new(new_ids)
        for start, stop in split_rows(len(array), batch_rows):
            batch = np.ascontiguousarray(clear_padding(array[start:stop], n_bits))
            try:
                self._add_batch(batch, new_ids[start:stop])
            except ConnectionError as error:
                raise ConnectionError(f"{error} (after {start} of {len(array)} codes were stored)") from error
        return self

    def build_index(self, kind: str, *, n_lists: int | None = None) -> Self:
        """Make searches approximate and fast; codes added later are searched, too.

        Parameters
        ----------
        kind : "ivf" or "hnsw", where the engine has it
        n_lists : lists of "ivf"; by default the square root of the number of codes
        """
        owner = type(self).__name__ + ".build_index"
        check_choice(owner, "kind", kind, self.index_kinds)
        n = self.count()
        if self._kind() != FLAT:
            raise ValueError(f"The store already has an index of kind {self._kind().name!r}; drop and fill it anew.")
        if n == 0:
            raise ValueError("An index needs codes to be built from: add some first.")
        default = min(n, max(1, math.isqrt(n)))
        n_lists = default if n_lists is None else check_int(owner, "n_lists", n_lists, 1, n)
        self._build(IndexKind(kind, n_lists if kind == "ivf" else 0))
        return self

    def search(
        self, queries: ArrayLike, k: int = 100, *, effort: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Find the k nearest codes of each query by Hamming distance.

        Without an index the result is the one of `HammingIndex`, id by id: ties go to the smaller id. With an index it
        is approximate; places for which nothing was found have id -1 and the largest int32 as distance.

        Parameters
        ----------
        queries : uint8 (n_queries, ceil(n_bits / 8))
        k : number of neighbours; fewer come back if the store holds fewer codes
        effort : int, optional
            Lists visited ("ivf", by default the square root of their number) or candidates kept ("hnsw", by default
            2 k, at least 64). No effect without an index.

        Returns
        -------
        distances : int32 (n_queries, min(k, count))
        ids : int64 (n_queries, min(k, count))
        """
        owner = type(self).__name__ + ".search"
        k = check_int(owner, "k", k, 1)
        n_bits = self.n_bits
        points = clear_padding(check_codes(queries, n_bits, "queries"), n_bits)
        n, kind = self._count(), self._kind()
        k = min(k, n)
        if k == 0 or len(points) == 0:
            return np.empty((len(points), k), np.int32), np.empty((len(points), k), np.int64)
        if kind == FLAT:
            return self._search_exactly(np.ascontiguousarray(points), k, n)
        default = math.isqrt(kind.n_lists - 1) + 1 if kind.name == "ivf" else max(2 * k, 64)
        effort = default if effort is None else check_int(owner, "effort", effort, 1)
        return sort_pairs(*self._fetch(np.ascontiguousarray(points), k, kind, effort), k)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _search_exactly(self, points: NDArray[np.uint8], k: int, n: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Fetch more and more until the last distance is beyond the k-th: most engines break ties as they like."""
        distances, ids = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.int64)
        undecided = np.arange(len(points))
        size = k if self.orders_ties else min(k + 1, n)
        while len(undecided):
            found, found_ids = sort_pairs(*self._fetch(points[undecided], size, FLAT, 0), size)
            decided = (found[:, -1] > found[:, k - 1]) | (size == n) | self.orders_ties
            rows = undecided[decided]
            distances[rows], ids[rows] = found[decided, :k], found_ids[decided, :k]
            undecided, size = undecided[~decided], min(2 * size, n)
        return distances, ids

    def _check_new(self, ids: NDArray[np.int64]) -> None:
        """Raise where an id is already stored."""
        if ids.min(initial=np.iinfo(np.int64).max) > self._largest_id():
            return
        known = self._known_ids(ids)
        if len(known):
            raise ValueError(f"ids must be new. Got {known[0]}, which the store already holds.")

    def _largest_id(self) -> int:
        """Return the largest id, -1 in an empty store."""
        return int(self._stored_ids().max(initial=-1))

    def _known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of `ids` that are stored."""
        return ids[np.isin(ids, self._stored_ids())]

    def _stored_ids(self) -> NDArray[np.int64]:
        """Return all ids; needed unless a subclass answers the two questions above itself."""
        raise NotImplementedError

    @abstractmethod
    def _where(self) -> str:
        """Name the store for messages."""

    @abstractmethod
    def _stored_bits(self) -> int | None:
        """Return the length of a code, None if there is no store."""

    @abstractmethod
    def _create(self, n_bits: int) -> None:
        """Make an empty store where there is none."""

    @abstractmethod
    def _count(self) -> int:
        """Return the number of codes in a store that exists, as it does for all methods below."""

    @abstractmethod
    def _kind(self) -> IndexKind:
        """Return how the store searches now."""

    @abstractmethod
    def _add_batch(self, codes: NDArray[np.uint8], ids: NDArray[np.int64]) -> None:
        """Add checked codes, all or none of them."""

    @abstractmethod
    def _build(self, kind: IndexKind) -> None:
        """Build the index of a store that has none and is not empty."""

    @abstractmethod
    def _fetch(
        self, points: NDArray[np.uint8], k: int, kind: IndexKind, effort: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return k nearest codes of each query in any order; the true ones, up to ties, if `kind` is flat."""
