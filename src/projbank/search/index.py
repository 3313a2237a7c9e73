"""HammingIndex: packed codes with ids, searched exactly."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, clear_padding, pack
from projbank.params import check_choice, check_int, reject
from projbank.search.file import check_unchanged
from projbank.search.gallery import Gallery
from projbank.search.scan import NOTHING, Block, Part, nearest, nearest_weighted, within
from projbank.threads import thread_count

LEAST_CODES = 20_000
"""Fewer codes are not put in lists: a scan of them takes less than a tenth of a millisecond."""
MAX_BITS = 1 << 24
"""Longest code: distances weighted with 8-bit queries still fit in int32."""


class HammingIndex:
    """K-nearest-neighbour search in packed binary codes: exact, or with `recall` at least about so exact.

    Parameters
    ----------
    codes : uint8 (n, ceil(n_bits / 8)), optional
        Bit p stands in byte p // 8 at position p % 8. The array is used where it is, not copied (a memory map stays on
        disk), so leave it unchanged. Stray bits past `n_bits` do not count.
    ids : int64 (n,) or list of str, optional
        Own ids, distinct: numbers, not negative, or texts. By default 0, 1, 2 ...
    n_bits : int, optional
        Length of a code; by default 8 times the bytes of one, and margins may then lack up to 7 bits, which count 0.
    payload : list, optional
        A small JSON value per code (a path, a title, a dict), kept beside it.
    made_by : str, optional
        Identity of what made the codes (`bank.identity()`), kept in the file.
    recall : float in (0, 1), optional
        Look at less than all codes, and find this part of the neighbours that a scan finds. The codes are put in lists
        around centres, and what a search must visit is measured on the codes themselves. That goes for packed queries
        without `allow` and up to 1,000 neighbours, from 20,000 codes on; everything else is exact, as is all without
        `recall`.
    n_jobs : threads that make the lists; None is all cores

    Notes
    -----
    Results are in the order of (distance, id): ties go to the smaller id, whatever the order of the codes and the
    number of threads. With ids that are texts, ties go to the code that was added first.

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
        self,
        codes: ArrayLike | None = None,
        *,
        ids: ArrayLike | None = None,
        n_bits: int | None = None,
        payload: Iterable[Any] | None = None,
        made_by: str | None = None,
        recall: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        if codes is None and n_bits is None:
            raise ValueError("HammingIndex needs codes, or n_bits for an empty index.")
        if n_bits is not None:
            n_bits = check_int(self, "n_bits", n_bits, 1, MAX_BITS)
        array = None if codes is None else check_codes(codes, n_bits)
        self._may_lack = 0 if n_bits else 7
        self._n_bits = check_int(self, "n_bits", n_bits or 8 * array.shape[1], 1, MAX_BITS)  # type: ignore[union-attr]
        self.made_by = made_by
        self._gallery = Gallery(self._n_bits)
        self._recall = _check_recall(recall)
        self._n_jobs = n_jobs
        thread_count(n_jobs)
        if array is not None:
            new = self._gallery.check(array, ids, payload)
            block = Block(new._replace(codes=np.ascontiguousarray(new.codes)))
            self._gallery.take(block, int(new.ids.max(initial=-1)) + 1)
            self._organise()

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._n_bits

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The stored codes, (n, ceil(n_bits / 8)), read-only; a copy once codes were added or removed."""
        return _read_only(self._gallery.compacted().codes)

    @property
    def ids(self) -> NDArray[Any]:
        """Their ids, (n,), read-only: int64, or objects of type str."""
        content = self._gallery.compacted()
        if not self._gallery.named:
            return _read_only(content.ids)
        return _read_only(np.array([*(content.names or []), None], dtype=object)[:-1])

    @property
    def recall(self) -> float | None:
        """Part of the neighbours that a search finds at least; None is all."""
        return self._recall

    def __len__(self) -> int:
        return len(self._gallery)

    def __repr__(self) -> str:
        return f"HammingIndex({len(self)} codes of {self._n_bits} bits)"

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None, payload: Iterable[Any] | None = None) -> Self:
        """Add codes; without `ids` they continue after the largest id ever used. On any error nothing is added.

        With `recall`, added codes are scanned until they are as many as those in lists; then all lists are made anew.
        """
        self._gallery.add(self._gallery.check(codes, ids, payload))
        self._organise()
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove the codes of the given ids; the others keep theirs. If one is unknown, nothing is removed."""
        self._gallery.remove(ids)
        return self

    def reconstruct(self, ids: ArrayLike) -> NDArray[np.uint8]:
        """Return the codes of the given ids, uint8 (len(ids), ceil(n_bits / 8)), in their order."""
        return self._gallery.codes_of(self._gallery.numbers(ids))

    def payload(self, ids: ArrayLike) -> list[Any]:
        """Return what was stored beside the codes of the given ids, in their order; None where nothing was."""
        return self._gallery.payload_of(self._gallery.numbers(ids))

    def search(
        self,
        queries: ArrayLike,
        k: int = 100,
        *,
        allow: ArrayLike | None = None,
        max_distance: int | None = None,
        query_bits: int = 4,
        rerank: Any = None,
        query_vectors: Any = None,
        metric: str = "l2",
        shortlist: int | None = None,
        n_jobs: int | None = None,
    ) -> tuple[NDArray, NDArray]:
        """Find the k nearest codes of each query; fewer columns come back if the index holds fewer codes.

        Parameters
        ----------
        queries : uint8 (n_queries, ceil(n_bits / 8)) or floats (n_queries, n_bits)
            Packed codes are compared by Hamming distance. Floats (margins, as `decision_function` gives) are compared
            by the asymmetric score, the sum over bits of +margin where the stored bit is 1 and -margin where it is 0.
            Margins are taken as they are: bits of larger margins count more, so scale them first if they should not.
        k : number of neighbours
        allow : ids, or bool mask (n,) in the order of `ids`, optional
            Only these codes are looked at; the time shrinks with their number. Ids that the index does not hold are
            passed over.
        max_distance : int, optional
            Codes at a larger Hamming distance are not found. For packed codes, and for the first stage of `rerank`.
        query_bits : int in [2, 8]
            Margins are rounded, per query, to signed integers of so many bits times one scale. The score is exact for
            the rounded margins. Time grows with `query_bits` - 1.
        rerank : None, "asymmetric", or array of vectors (N, D)
            Second stage on a shortlist. "asymmetric": queries are margins, the shortlist is found by the Hamming
            distance to their signs and ordered by the asymmetric score. Vectors (array, memory map, scipy.sparse, HDF5
            data set): the shortlist is ordered by the distance between `query_vectors` and the rows ``rerank[id]``
            (where ids are texts: row i belongs to the i-th code that was added).
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
        ids : int64 (n_queries, min(k, n)), or objects where ids are texts
            Ties go to the smaller id. Where `allow` or `max_distance` leave fewer than k codes, the last places have
            id -1 (None where ids are texts) and the largest int32 as distance (score -inf, distance of vectors inf).
        """
        owner = "HammingIndex.search"
        k = min(check_int(owner, "k", k, 1), len(self))
        query_bits = check_int(owner, "query_bits", query_bits, 2, 8)
        most = NOTHING if max_distance is None else check_int(owner, "max_distance", max_distance, 0)
        n_threads = thread_count(n_jobs)
        points = self._check_queries(queries)
        if max_distance is not None and points.dtype != np.uint8 and rerank is None:
            raise ValueError("max_distance is a Hamming distance: queries must be packed codes, or give rerank.")
        stage = partial(self._one_stage, self._gallery.parts(allow), query_bits, most, n_threads, allow is None)
        if rerank is None:
            if shortlist is not None or query_vectors is not None:
                raise ValueError("shortlist and query_vectors are for two-stage search: give rerank, too.")
            values, found = stage(points, k)
            return values, self._gallery.labels(found)
        size = check_int(owner, "shortlist", 10 * max(k, 1) if shortlist is None else shortlist, max(k, 1))
        size = min(size, len(self))
        from projbank.search.rerank import by_margins, by_vectors

        if isinstance(rerank, str):
            check_choice(owner, "rerank", rerank, ("asymmetric",))
            if points.dtype == np.uint8:
                raise TypeError('queries must be margins (floats) for rerank="asymmetric". Got packed codes (uint8).')
            _, found = stage(pack(points > 0), size)
            rows = self._gallery.rows_of(found.reshape(-1)).reshape(found.shape)
            parts = [block.part for block in self._gallery.blocks]
            values, found = by_margins(parts, rows, found, points, k, query_bits, n_threads)
        else:
            check_choice(owner, "metric", metric, ("l2", "cosine"))
            values, found = by_vectors(stage(points, size)[1], rerank, query_vectors, metric, k, n_threads)
        return values, self._gallery.labels(found)

    def range_search(
        self, queries: ArrayLike, max_distance: int, *, allow: ArrayLike | None = None, n_jobs: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray]:
        """Find all codes at a Hamming distance of at most `max_distance` from each query.

        Parameters
        ----------
        queries : uint8 (n_queries, ceil(n_bits / 8))
        max_distance : int
        allow : ids or mask, optional
            As in `search`.
        n_jobs : threads; None is all cores. The result does not depend on it.

        Returns
        -------
        limits : int64 (n_queries + 1,)
            The codes found for query q stand at ``limits[q]:limits[q + 1]`` of the other two, as FAISS gives them.
        distances : int32
        ids : int64, or objects where ids are texts
            Each query's in the order of (distance, id).
        """
        owner = "HammingIndex.range_search"
        most = min(check_int(owner, "max_distance", max_distance, 0), NOTHING)
        points = clear_padding(check_codes(queries, self._n_bits, "queries"), self._n_bits)
        limits, distances, found = within(self._gallery.parts(allow), points, most, thread_count(n_jobs))
        return limits, distances, self._gallery.labels(found)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write the index to one file, or add what has changed to the file that it was loaded from.

        Parameters
        ----------
        path : path, optional
            Write the whole index, without what was removed; an existing index is replaced in one step. Not given:
            append the codes added and the ids removed since `load` or the last `save`. A process that is killed
            meanwhile leaves the file as it was; whoever has it open goes on with what it was.

        Raises
        ------
        IndexFileError
            If the file was changed by someone else since it was loaded.
        """
        if path is None:
            if self._gallery.state is None:
                raise ValueError("path must be given: the index was not loaded from one file, nor saved to one.")
            if self._gallery.append_changes():
                return
            check_unchanged(self._gallery.state)
            path = self._gallery.state.path
        self._organise(always=not self._gallery.is_one_block)
        settings = {"made_by": self.made_by, "recall": None if self._recall is None else repr(self._recall)}
        self._gallery.write(path, {name: value for name, value in settings.items() if value is not None})

    @classmethod
    def load(cls, path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Self:
        """Open an index file by mapping it into memory: instant at any size, pages are read as searches need them.

        Parameters
        ----------
        path : path, or list of paths
            Several files (shards) become one index, searched together; their ids must be distinct.

        Raises
        ------
        IndexFileError
            If a file is not an index, is damaged or cut short, or was written by a newer version.
        """
        paths = [path] if isinstance(path, str | os.PathLike) else list(path)
        gallery, settings = Gallery.read(paths)
        recall = float(settings["recall"]) if "recall" in settings else None
        index = cls(n_bits=gallery.n_bits, made_by=settings.get("made_by"), recall=recall)
        index._gallery = gallery
        return index

    def _one_stage(
        self,
        parts: list[Part],
        query_bits: int,
        most: int,
        n_threads: int,
        everything: bool,
        points: NDArray[Any],
        k: int,
    ) -> tuple[NDArray, NDArray[np.int64]]:
        """Distances or scores, and numbers; lists serve searches in everything."""
        if points.dtype != np.uint8:
            from projbank.search.margins import quantise, weigh

            weighted = weigh(*quantise(points, query_bits), query_bits)
            distances, ids = nearest_weighted(parts, weighted, k, n_threads)
            return weighted.scores(distances, ids), ids
        if self._recall is not None and everything and k and len(points):
            from projbank.search.coarse import nearest_coarse

            return nearest_coarse(self._gallery.live_blocks(), points, k, n_threads, most)
        return nearest(parts, points, k, n_threads, most)

    def _organise(self, *, always: bool = False) -> None:
        """Put all codes in lists, where a recall is asked for and many stand in none."""
        blocks = self._gallery.live_blocks()
        listed = sum(block.n_live for block in blocks if block.lists is not None)
        if self._recall is None or len(self) < LEAST_CODES or (not always and len(self) < 2 * listed):
            return
        from projbank.search.coarse import organised

        content = self._gallery.compacted()
        self._gallery.replace(organised(content, self._n_bits, self._recall, thread_count(self._n_jobs)))

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
            wanted = f"margins of shape (n, {self._n_bits}); vectors need their bank"
            raise ValueError(f"queries must be {wanted}. Got shape {array.shape}.")
        from projbank.rows.source import check_finite

        with np.errstate(over="ignore"):
            array = array.astype(np.float32, copy=False)
        check_finite(array, name="queries")
        return np.pad(array, ((0, 0), (0, lacking))) if lacking else array


def _check_recall(recall: float | None) -> float | None:
    if recall is None:
        return None
    if isinstance(recall, bool) or not isinstance(recall, float | int | np.floating) or not 0 < recall < 1:
        reject("HammingIndex", "recall", "a float in the range (0.0, 1.0), or None for an exact search", recall)
    return float(recall)


def _read_only(array: NDArray) -> NDArray:
    view = array.view()
    view.flags.writeable = False
    return view
