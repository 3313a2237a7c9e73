"""What every store can do, and what all of them share: checks, batches, and ties that go to the smaller id."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, clear_padding, code_bytes
from projbank.params import check_choice, check_int
from projbank.search.ids import are_texts, encode_payload, new_ids, refuse
from projbank.search.scan import NOTHING, Nearest, NewCodes, sort_pairs
from projbank.threads import split_rows

VALUES_PER_QUESTION = 10_000
"""Ids or names that an engine is asked for at a time."""


class IndexKind(NamedTuple):
    """How a store searches: "flat" (exact), "ivf" with so many lists, or "hnsw"."""

    name: str
    n_lists: int = 0


FLAT = IndexKind("flat")


class Wanted(NamedTuple):
    """What a search asks of an engine.

    Attributes
    ----------
    k : how many codes per query
    kind : FLAT for the true ones, up to ties; else the index that the store has
    effort : lists visited or candidates kept, if not flat
    allow : of a flat search: the numbers that may be found, ascending, at least k of them
    """

    k: int
    kind: IndexKind = FLAT
    effort: int = 0
    allow: NDArray[np.int64] | None = None


Row = tuple[int, str | None, str | None]
"""Number, name and payload (JSON) of a stored code; None where there is none."""


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

    @property
    def exists(self) -> bool:
        """Whether the store was created."""
        return self._stored_bits() is not None

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

    def add(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None = None,
        payload: Iterable[Any] | None = None,
        *,
        batch_rows: int = 10_000,
    ) -> Self:
        """Add codes in batches, each of them whole or not at all.

        Parameters
        ----------
        codes : uint8 (n, ceil(n_bits / 8)); an array or a memory map
        ids : int64 (n,) or list of str, optional
            Distinct and new: numbers, not negative, or texts. By default they continue after the largest one. A store
            holds either numbers or texts.
        payload : list, optional
            A small JSON value per code.
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
        texts = None if payload is None else encode_payload(payload, len(array))
        first = self._largest_id() + 1
        named = self._is_named() if first else None
        numbers, all_names = new_ids(ids, len(array), first, named, self._numbers_of, "store")
        for start, stop in split_rows(len(array), batch_rows):
            batch = np.ascontiguousarray(clear_padding(array[start:stop], n_bits))
            names, some = (None if column is None else column[start:stop] for column in (all_names, texts))
            try:
                self._add_batch(NewCodes(batch, numbers[start:stop], names, some))
            except ConnectionError as error:
                raise ConnectionError(f"{error} (after {start} of {len(array)} codes were stored)") from error
        return self

    def numbers(self) -> NDArray[np.int64]:
        """Numbers of all codes, ascending: their ids, or what the store has counted where ids are texts."""
        return np.sort(self._stored_ids()) if self.count() else np.empty(0, np.int64)

    def codes(self) -> NDArray[np.uint8]:
        """All codes, (count, ceil(n_bits / 8)), in the order of `numbers`."""
        return self._stored_codes() if self.count() else np.empty((0, code_bytes(self.n_bits)), np.uint8)

    def replace(self, codes: ArrayLike) -> Self:
        """Put other codes of the same length in place of all, in one step; until then searches find the old ones.

        Parameters
        ----------
        codes : uint8 (count, ceil(n_bits / 8)), in the order of `numbers`
        """
        n_bits, numbers = self.n_bits, self.numbers()
        array = check_codes(codes, n_bits)
        if len(array) != len(numbers):
            raise ValueError(f"codes must be {len(numbers)}, as many as the store holds. Got {len(array)}.")
        if len(numbers):
            self._replace(np.ascontiguousarray(clear_padding(array, n_bits)), numbers)
        return self

    def payload(self, ids: ArrayLike) -> list[Any]:
        """Return what was stored beside the codes of the given ids, in their order; None where nothing was."""
        numbers = self._numbers_of(ids)
        refuse(numbers < 0, np.asarray(ids), "in the store. Got {}, which it does not hold")
        return [None if text is None else json.loads(text) for _, text in self._labels(numbers)]

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
        self, queries: ArrayLike, k: int = 100, *, allow: ArrayLike | None = None, effort: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray]:
        """Find the k nearest codes of each query by Hamming distance.

        Without an index the result is the one of `HammingIndex`, id by id: ties go to the smaller id. With an index it
        is approximate; places for which nothing was found have id -1 and the largest int32 as distance.

        Parameters
        ----------
        queries : uint8 (n_queries, ceil(n_bits / 8))
        k : number of neighbours; fewer come back if the store holds fewer codes
        allow : ids, optional
            Only these codes are found, exactly, whether there is an index or not. Unknown ids are passed over.
        effort : int, optional
            Lists visited ("ivf", by default the square root of their number) or candidates kept ("hnsw", by default
            2 k, at least 64). No effect without an index.

        Returns
        -------
        distances : int32 (n_queries, min(k, count))
        ids : int64 (n_queries, min(k, count)), or objects where ids are texts (None in empty places)
        """
        owner = type(self).__name__ + ".search"
        k = check_int(owner, "k", k, 1)
        n_bits = self.n_bits
        points = np.ascontiguousarray(clear_padding(check_codes(queries, n_bits, "queries"), n_bits))
        n, kind = self._count(), self._kind()
        k = min(k, n)
        if k == 0 or len(points) == 0:
            return np.empty((len(points), k), np.int32), np.empty((len(points), k), np.int64)
        if allow is not None:
            numbers = self._numbers_of(allow)
            distances, ids = self._search_allowed(points, k, np.unique(numbers[numbers >= 0]))
        elif kind == FLAT:
            distances, ids = self._search_exactly(points, k, n)
        else:
            default = math.isqrt(kind.n_lists - 1) + 1 if kind.name == "ivf" else max(2 * k, 64)
            effort = default if effort is None else check_int(owner, "effort", effort, 1)
            distances, ids = sort_pairs(*self._fetch(points, Wanted(k, kind, effort)), k)
        return distances, self._named_ids(ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _search_exactly(
        self, points: NDArray[np.uint8], k: int, n: int, allow: NDArray[np.int64] | None = None
    ) -> Nearest:
        """Fetch more and more until the last distance is beyond the k-th: most engines break ties as they like."""
        distances, ids = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.int64)
        undecided = np.arange(len(points))
        size = k if self.orders_ties else min(k + 1, n)
        while len(undecided):
            found, found_ids = sort_pairs(*self._fetch(points[undecided], Wanted(size, allow=allow)), size)
            decided = (found[:, -1] > found[:, k - 1]) | (size == n) | self.orders_ties
            rows = undecided[decided]
            distances[rows], ids[rows] = found[decided, :k], found_ids[decided, :k]
            undecided, size = undecided[~decided], min(2 * size, n)
        return distances, ids

    def _search_allowed(self, points: NDArray[np.uint8], k: int, allow: NDArray[np.int64]) -> Nearest:
        distances = np.full((len(points), k), NOTHING, np.int32)
        ids = np.full((len(points), k), -1, np.int64)
        kept = min(k, len(allow))
        if kept:
            distances[:, :kept], ids[:, :kept] = self._search_exactly(points, kept, len(allow), allow)
        return distances, ids

    def _numbers_of(self, ids: Any) -> NDArray[np.int64]:
        """Numbers of the user's ids, -1 for unknown ones."""
        if are_texts(ids):
            return self._find_names(list(ids))
        array = np.asarray(ids)
        if array.size == 0:
            return np.empty(0, np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu" or self._is_named():
            raise TypeError(f"ids must be a list of ids of the store. Got dtype {array.dtype}, shape {array.shape}.")
        numbers = array.astype(np.int64)
        return np.where(np.isin(numbers, self._known_ids(np.unique(numbers))), numbers, -1)

    def _named_ids(self, numbers: NDArray[np.int64]) -> NDArray:
        if not self._is_named():
            return numbers
        found = np.unique(numbers[numbers >= 0])
        names = np.array([*(name for name, _ in self._labels(found)), None], dtype=object)
        return names[np.where(numbers < 0, len(found), np.searchsorted(found, numbers))]

    def _find_names(self, names: list[str]) -> NDArray[np.int64]:
        """Return the number of each name, -1 for unknown ones."""
        known = {name: number for number, name, _ in self._rows("name", names)}
        return np.array([known.get(name, -1) for name in names], dtype=np.int64)

    def _labels(self, numbers: NDArray[np.int64]) -> list[tuple[str | None, str | None]]:
        """Return name and payload of each of the numbers."""
        rows = {number: (name, payload) for number, name, payload in self._rows("id", numbers.tolist())}
        return [rows.get(number, (None, None)) for number in numbers.tolist()]

    def _rows(self, column: str, values: list[Any]) -> Iterator[Row]:
        """Rows whose `column` is among the values, asked for in portions."""
        for start, stop in split_rows(len(values), VALUES_PER_QUESTION):
            yield from self._select(column, values[start:stop])

    def _largest_id(self) -> int:
        """Return the largest id, -1 in an empty store."""
        return int(self._stored_ids().max(initial=-1))

    def _known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of `ids` that are stored."""
        return ids[np.isin(ids, self._stored_ids())]

    @abstractmethod
    def _stored_codes(self) -> NDArray[np.uint8]:
        """Return all codes of a store that is not empty, by ascending numbers."""

    @abstractmethod
    def _stored_ids(self) -> NDArray[np.int64]:
        """Return all ids, in any order."""

    @abstractmethod
    def _replace(self, codes: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        """Put codes in place of those of all numbers, all or none of them; an index is kept or built anew."""

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
    def _add_batch(self, batch: NewCodes) -> None:
        """Add checked codes with their labels, all or none of them."""

    @abstractmethod
    def _is_named(self) -> bool:
        """Whether the ids in a store that is not empty are texts."""

    @abstractmethod
    def _select(self, column: str, values: list[Any]) -> Iterable[Row]:
        """Return the stored rows whose `column`, "id" or "name", is among the values."""

    @abstractmethod
    def _build(self, kind: IndexKind) -> None:
        """Build the index of a store that has none and is not empty."""

    @abstractmethod
    def _fetch(self, points: NDArray[np.uint8], wanted: Wanted) -> Nearest:
        """Return `wanted.k` nearest codes of each query in any order."""


def collect(answers: Iterable[Sequence[tuple[float, int]]], n_queries: int, k: int) -> Nearest:
    """Put the (distance, id) found for each query, at most k of them, into arrays."""
    distances, ids = np.full((n_queries, k), NOTHING, np.int32), np.full((n_queries, k), -1, np.int64)
    for row, found in enumerate(answers):
        distances[row, : len(found)] = [distance for distance, _ in found]
        ids[row, : len(found)] = [number for _, number in found]
    return distances, ids
