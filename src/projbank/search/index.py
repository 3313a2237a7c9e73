"""HammingIndex: packed codes with ids, searched exactly."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, clear_padding, pack
from projbank.params import check_choice, check_int
from projbank.rows.source import check_finite
from projbank.search.file import IndexContent, read_index, write_index
from projbank.search.ids import check_ids
from projbank.search.margins import quantise, weigh
from projbank.search.rerank import by_margins, by_vectors
from projbank.search.scan import nearest, nearest_weighted
from projbank.threads import thread_count

MAX_BITS = 1 << 24
"""Longest code: distances weighted with 8-bit queries still fit in int32."""


class HammingIndex:
    """Exact k-nearest-neighbour search in packed binary codes.

    Parameters
    ----------
    codes : uint8 (n, ceil(n_bits / 8)), optional
        Bit p stands in byte p // 8 at position p % 8. The array is used where it is, not copied (a memory map stays on
        disk), so leave it unchanged; the first `add` or `remove` makes a copy. Stray bits past `n_bits` do not count.
    ids : int64 (n,), optional
        Own ids, distinct and not negative; by default 0, 1, 2 ...
    n_bits : int, optional
        Length of a code; by default 8 times the bytes of one, and margins may then lack up to 7 bits, which count 0.

    Notes
    -----
    Results are in the order of (distance, id): ties go to the smaller id, whatever the order of the codes and the
    number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from projbank.search import HammingIndex
    >>> index = HammingIndex(np.array([[0b0000], [0b0111], [0b0001]], dtype=np.uint8), n_bits=4)
    >>> distances, ids = index.search(np.array([[0b0011]], dtype=np.uint8), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1, 1]], [[1, 2]])
    """

    def __init__(
        self, codes: ArrayLike | None = None, *, ids: ArrayLike | None = None, n_bits: int | None = None
    ) -> None:
        if codes is None and n_bits is None:
            raise ValueError("HammingIndex needs codes, or n_bits for an empty index.")
        if n_bits is not None:
            n_bits = check_int(self, "n_bits", n_bits, 1, MAX_BITS)
        array = np.empty((0, (int(n_bits or 0) + 7) // 8), np.uint8) if codes is None else check_codes(codes, n_bits)
        self._may_lack = 0 if n_bits else 7
        self._n_bits = check_int(self, "n_bits", n_bits or 8 * array.shape[1], 1, MAX_BITS)
        self._codes = np.ascontiguousarray(clear_padding(array, self._n_bits))
        self._count = len(array)
        self._owned = False
        if ids is None:
            self._ids = np.arange(self._count, dtype=np.int64)
        else:
            self._ids = check_ids(ids, self._count).copy()
        self._next_id = int(self._ids.max(initial=-1)) + 1

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._n_bits

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The stored codes, (n, ceil(n_bits / 8)), read-only."""
        return _read_only(self._codes[: self._count])

    @property
    def ids(self) -> NDArray[np.int64]:
        """Their ids, (n,), read-only."""
        return _read_only(self._ids[: self._count])

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"HammingIndex({self._count} codes of {self._n_bits} bits)"

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Add codes; without `ids` they continue after the largest id ever used. On any error nothing is added."""
        new = clear_padding(check_codes(codes, self._n_bits), self._n_bits)
        if ids is None:
            new_ids = np.arange(self._next_id, self._next_id + len(new), dtype=np.int64)
        else:
            new_ids = check_ids(ids, len(new))
            if new_ids.min(initial=self._next_id) < self._next_id:
                known = new_ids[np.isin(new_ids, self.ids)]
                if len(known):
                    raise ValueError(f"ids must be new. Got {known[0]}, which the index already holds.")
        total = self._count + len(new)
        self._make_room(total)
        self._codes[self._count : total] = new
        self._ids[self._count : total] = new_ids
        self._count = total
        self._next_id = max(self._next_id, int(new_ids.max(initial=-1)) + 1)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove the codes of the given ids; the others keep theirs. If one is unknown, nothing is removed."""
        gone = check_ids(ids)
        missing = gone[~np.isin(gone, self.ids)]
        if len(missing):
            raise ValueError(
                f"ids must be in the index. Got {missing[0]}, which it does not hold; nothing was removed."
            )
        kept = ~np.isin(self.ids, gone)
        self._codes, self._ids = self.codes[kept], self.ids[kept]
        self._count = len(self._ids)
        self._owned = True
        return self

    def search(
        self,
        queries: ArrayLike,
        k: int = 100,
        *,
        query_bits: int = 4,
        rerank: Any = None,
        query_vectors: Any = None,
        metric: str = "l2",
        shortlist: int | None = None,
        n_jobs: int | None = None,
    ) -> tuple[NDArray, NDArray[np.int64]]:
        """Find the k nearest codes of each query; fewer columns come back if the index holds fewer codes.

        Parameters
        ----------
        queries : uint8 (n_queries, ceil(n_bits / 8)) or floats (n_queries, n_bits)
            Packed codes are compared by Hamming distance. Floats (margins, as `decision_function` gives) are compared
            by the asymmetric score, the sum over bits of +margin where the stored bit is 1 and -margin where it is 0.
            Margins are taken as they are: bits of larger margins count more, so scale them first if they should not.
        k : number of neighbours
        query_bits : int in [2, 8]
            Margins are rounded, per query, to signed integers of so many bits times one scale. The score is exact for
            the rounded margins. Time grows with `query_bits` - 1.
        rerank : None, "asymmetric", or array of vectors (N, D)
            Second stage on a shortlist. "asymmetric": queries are margins, the shortlist is found by the Hamming
            distance to their signs and ordered by the asymmetric score. Vectors (array, memory map, scipy.sparse, HDF5
            data set): the shortlist is ordered by the distance between `query_vectors` and the rows ``rerank[id]``.
        query_vectors : floats (n_queries, D)
            The queries' own vectors, for `rerank` with vectors.
        metric : "l2" or "cosine"
            Distance between vectors: Euclidean, or 1 minus the cosine.
        shortlist : int, optional
            Candidates of the second stage, at least k; by default 10 * k.
        n_jobs : threads; None is all cores. The result does not depend on it.

        Returns
        -------
        distances or scores : (n_queries, min(k, n))
            int32 Hamming distances, smallest first; float32 asymmetric scores, largest first; or float32 distances
            between vectors, smallest first.
        ids : int64 (n_queries, min(k, n))
            Ties go to the smaller id.
        """
        k = min(check_int("HammingIndex.search", "k", k, 1), self._count)
        query_bits = check_int("HammingIndex.search", "query_bits", query_bits, 2, 8)
        n_threads = thread_count(n_jobs)
        points = self._check_queries(queries)
        if rerank is None:
            if shortlist is not None or query_vectors is not None:
                raise ValueError("shortlist and query_vectors are for two-stage search: give rerank, too.")
            return self._one_stage(points, k, query_bits, n_threads)
        size = check_int(
            "HammingIndex.search", "shortlist", 10 * max(k, 1) if shortlist is None else shortlist, max(k, 1)
        )
        size = min(size, self._count)
        if isinstance(rerank, str):
            check_choice("HammingIndex.search", "rerank", rerank, ("asymmetric",))
            if points.dtype == np.uint8:
                raise TypeError('queries must be margins (floats) for rerank="asymmetric". Got packed codes (uint8).')
            _, found = nearest(self.codes, self.ids, pack(points > 0), size, n_threads)
            return by_margins(self.codes, self._rows_of(found), found, points, k, query_bits, n_threads)
        check_choice("HammingIndex.search", "metric", metric, ("l2", "cosine"))
        _, found = self._one_stage(points, size, query_bits, n_threads)
        return by_vectors(found, rerank, query_vectors, metric, k, n_threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file; an existing file is replaced in one step."""
        write_index(path, IndexContent(self.codes, self.ids, self._n_bits, self._next_id))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open an index file by mapping it into memory: instant at any size, pages are read as searches need them.

        The file must stay as it is while the index is used. `add` and `remove` copy the index into memory first.

        Raises
        ------
        IndexFileError
            If the file is not an index, is damaged or cut short, or was written by a newer version.
        """
        content = read_index(path)
        index = cls(n_bits=content.n_bits)
        index._codes, index._ids = np.asarray(content.codes), np.asarray(content.ids)
        index._count, index._next_id = len(content.ids), content.next_id
        return index

    def _one_stage(
        self, points: NDArray[Any], k: int, query_bits: int, n_threads: int
    ) -> tuple[NDArray, NDArray[np.int64]]:
        if points.dtype == np.uint8:
            return nearest(self.codes, self.ids, points, k, n_threads)
        integers, scale = quantise(points, query_bits)
        weighted = weigh(integers, query_bits)
        distances, ids = nearest_weighted(self.codes, self.ids, weighted, k, n_threads)
        return weighted.scores(distances, scale), ids

    def _check_queries(self, queries: ArrayLike) -> NDArray[Any]:
        array = np.asarray(queries)
        if array.dtype == np.uint8:
            return clear_padding(check_codes(array, self._n_bits, "queries"), self._n_bits)
        if array.dtype.kind != "f":
            raise TypeError(
                f"queries must be packed codes (uint8) or margins (floats). Got dtype {array.dtype} instead."
            )
        lacking = self._n_bits - array.shape[1] if array.ndim == 2 else -1
        if not 0 <= lacking <= self._may_lack:
            raise ValueError(f"queries must be margins of shape (n, {self._n_bits}). Got shape {array.shape}.")
        with np.errstate(over="ignore"):
            array = array.astype(np.float32, copy=False)
        check_finite(array, name="queries")
        return np.pad(array, ((0, 0), (0, lacking))) if lacking else array

    def _rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows at which the given ids, all of them present, are stored."""
        order = np.argsort(self.ids, kind="stable")
        return order[np.searchsorted(self.ids, ids, sorter=order)]

    def _make_room(self, total: int) -> None:
        """Own buffers of at least `total` rows; they grow by half, so that many small adds stay cheap."""
        if self._owned and total <= len(self._codes):
            return
        capacity = total if self._count == 0 else max(total, self._count * 3 // 2)
        codes = np.empty((capacity, self._codes.shape[1]), dtype=np.uint8)
        ids = np.empty(capacity, dtype=np.int64)
        codes[: self._count], ids[: self._count] = self.codes, self.ids
        self._codes, self._ids, self._owned = codes, ids, True


def _read_only(array: NDArray) -> NDArray:
    view = array.view()
    view.flags.writeable = False
    return view
