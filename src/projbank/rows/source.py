"""RowSource: rows of long vectors, read in blocks and never copied whole, whatever they are stored as.

Everything that gives long vectors is one: arrays and memory maps, scipy.sparse matrices, HDF5, zarr, parquet, Dask
arrays, columns of frames, tensors, single cells. What reads rows asks for blocks, for rows by their ids, for a sample
or for statistics, and never what kind of rows it has.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from projbank.progress import progress
from projbank.rows.sparse import checked
from projbank.threads import run_all, run_each, split_rows

BLOCK_BYTES = 32 << 20
"""How many bytes of float32 rows are held at a time where rows are converted or read from disk."""
LARGEST = 1e12
"""Largest root mean square of a column that can be learnt from: sums of squares must fit into float32."""
_LARGE = 1 << 20
"""Numbers from which a copy is worth starting threads for."""
_READERS = {
    "anndata": "cells:anndata_rows",
    "builtins": "plain:plain_rows",
    "dask": "dask:dask_rows",
    "h5py": "hdf5:hdf5_rows",
    "pandas": "frames:pandas_rows",
    "pathlib": "plain:plain_rows",
    "polars": "frames:polars_rows",
    "pyarrow": "arrow:arrow_rows",
    "torch": "torch:torch_rows",
    "zarr": "zarr:zarr_rows",
}
"""Package of a type to the module and the function that returns its rows, or None where NumPy reads them as well."""

Floats = NDArray[np.float32]
ALL = slice(None)


class Statistics(NamedTuple):
    """Means and standard deviations of the columns, (D,) float64 each."""

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]

    @property
    def spread(self) -> float:
        """Root mean square of the deviations: the size of a value about its mean."""
        return float(np.sqrt(np.mean(self.deviations**2)))


class RowSource(ABC):
    """Rows of long vectors, (n, D). A kind of storage implements `block`; `take` where it can do better."""

    shape: tuple[int, int]
    array: NDArray[Any] | None = None
    """The rows themselves where they lie in memory or in a mapped file, as they are."""
    dtype: np.dtype[Any] = np.dtype(np.float32)
    """Type of the numbers where they are stored, if that is known."""
    made_by: str | None = None
    """Identity of what made these rows, or of their columns, if that is known."""
    first: int = 0
    """Number of the first row, where these are some rows out of more."""
    part_bytes: int = 256 << 20
    """Bytes of float32 rows between two writes of their codes."""
    in_chunks: bool = False
    """Whether to read a row is to read a whole chunk of rows: then rows had better be read in one pass."""
    is_lazy: bool = False
    """Whether these rows are an array that is computed when it is asked for; then `lazily` makes such ones of codes."""
    _statistics: Statistics | None = None

    @abstractmethod
    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        """Rows start:stop, or some columns of them, as float32 with neighbouring columns adjacent in memory.

        A view where the rows already are like that.
        """

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        """Copy the rows of the given ascending ids to `out`."""
        for place, i in enumerate(ids):
            out[place] = self.block(int(i), int(i) + 1)[0]

    def read(self, ids: NDArray[np.integer], n_threads: int = 1) -> Floats:
        """Return a copy of the rows of the given ascending ids."""
        out = np.empty((len(ids), self.shape[1]), np.float32)
        self.take(ids, out, n_threads)
        return out

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        """(start, stop) of the blocks in which rows are read, each of at most `budget` bytes of float32."""
        return row_blocks(*self.shape, budget)

    def blocks(self, budget: int = BLOCK_BYTES) -> Iterator[tuple[int, Floats]]:
        """Yield the first row number and the rows of one block after the other."""
        for start, stop in self.bounds(budget):
            rows = self.block(start, stop)
            yield start, rows
            release_pages(rows)

    def sample(self, n: int, seed: int) -> NDArray[np.int64]:
        """Ascending ids of `n` rows drawn at random; of all rows where there are no more."""
        n_rows = self.shape[0]
        if n >= n_rows:
            return np.arange(n_rows)
        return np.sort(np.random.default_rng(seed).choice(n_rows, n, replace=False))

    def part(self, start: int, stop: int) -> RowSource:
        """Rows start:stop; what is wrong with one is told with its number among all."""
        from projbank.rows.views import RowRange

        return RowRange(self, start, stop)

    def chosen(self, ids: NDArray[np.int64]) -> RowSource:
        """Some of the rows, by their ascending ids."""
        from projbank.rows.views import ChosenRows

        return ChosenRows(self, ids)

    def statistics(self, name: str = "X") -> Statistics:
        """Return statistics of the columns, by one pass; raises for the first NaN, infinity or excess.

        A column whose values are all the same has deviation exactly 0.
        """
        if self._statistics is None:
            self._statistics = _column_statistics(self, name)
        return self._statistics

    def nonzeros_per_row(self, n_rows: int = 64) -> float:
        """Mean number of values of a row that are not 0, over some rows from all over."""
        ids = np.unique(np.linspace(0, self.shape[0] - 1, n_rows).astype(np.int64)).tolist()
        return float(np.mean([np.count_nonzero(self.block(i, i + 1)) for i in ids]))

    def lazily(self, code: Callable[[RowSource], NDArray[Any]], width: int, dtype: DTypeLike, token: str) -> Any:
        """Return ``code`` of these rows, (n, width), as an array that is computed when it is asked for.

        For rows that are lazy themselves; `token` names what `code` does.
        """
        raise TypeError(f"{type(self).__name__} is read at once; only lazy rows are computed when they are asked for.")

    def write(
        self,
        code: Callable[[Floats, NDArray[Any]], bool],
        out: NDArray[Any],
        bounds: list[tuple[int, int]],
        *,
        n_threads: int = 1,
        verbose: int = 0,
    ) -> None:
        """Fill `out`, one row of it for each row, block by block on several threads.

        ``code(rows, out[start:stop])`` codes a block and returns False where what it computed has a NaN or infinity:
        then the first bad value of the rows raises. A sum may also overflow where all values are finite: it stands.
        """

        def work(number: int) -> int:
            start, stop = bounds[number]
            rows = self.block(start, stop)
            later = bounds[number + n_threads : number + n_threads + 1]
            with self._fetching(later), np.errstate(invalid="ignore", over="ignore"):  # bad values are refused below
                is_finite = code(rows, out[start:stop])
            if not is_finite:
                check_finite(rows, self.first + start)
            release_pages(rows)
            return stop - start

        if len(bounds) <= 1:
            n_threads = 1
        calls = [(number,) for number in range(len(bounds))]
        with progress("coding", self.shape[0], verbose if len(bounds) > 1 else 0) as advance:
            for done in run_all(work, calls, n_threads):
                advance(done)

    @contextlib.contextmanager
    def _fetching(self, bounds: list[tuple[int, int]]) -> Iterator[None]:
        """Have rows of a later block, if there is one, read from the disk meanwhile, where they are a mapped file."""
        if not bounds or self.array is None or mapped_file(self.array) is None or not self.array.flags.c_contiguous:
            yield
            return
        later = self.array[slice(*bounds[0])].reshape(-1).view(np.uint8)
        thread = Thread(target=later[:: mmap.PAGESIZE].max)  # to touch a page is to have it read
        thread.start()
        try:
            yield
        finally:
            thread.join()


class ArrayRows(RowSource):
    """Rows of a NumPy array or memory map of any layout and type of number."""

    array: NDArray[Any]

    def __init__(self, array: NDArray[Any], first: int = 0) -> None:
        self.array = array
        self.shape = array.shape
        self.first = first

    def part(self, start: int, stop: int) -> RowSource:
        return ArrayRows(self.array[start:stop], self.first + start)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return as_floats(self.array[start:stop, columns])

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        if type(self.array) is np.ndarray and self.array.dtype == np.float32:

            def take(start: int, stop: int) -> None:  # mode "clip" writes straight to `out`
                np.take(self.array, ids[start:stop], axis=0, out=out[start:stop], mode="clip")
                release_pages(self.array)  # also pages that were mapped along with those of the rows

            run_each(take, split_rows(len(ids), 64), n_threads if out.size > _LARGE else 1)
            return
        for start, stop in split_rows(len(ids), 8):  # few at a time; rows of a file in the file's order
            with np.errstate(over="ignore"):
                out[start:stop] = self.array[ids[start:stop]]
            release_pages(self.array)


class SparseRows(RowSource):
    """Rows of a scipy.sparse matrix."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = checked(matrix)
        self.shape = self.matrix.shape

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return as_floats(self.matrix[start:stop, columns].toarray())

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        for start, stop in split_rows(len(ids), 8):
            with np.errstate(over="ignore"):
                out[start:stop] = self.matrix[ids[start:stop]].toarray()


def as_rows(X: Any) -> RowSource:
    """Rows of anything that is known how to read."""
    rows = foreign_rows(X)
    if rows is not None:
        return rows
    return SparseRows(X) if sp.issparse(X) else ArrayRows(np.asarray(X))


def foreign_rows(X: Any) -> RowSource | None:
    """Rows of a foreign kind of storage, which is not turned into an array; None for arrays and scipy.sparse."""
    if isinstance(X, RowSource):
        return X
    package = type(X).__module__.partition(".")[0]
    if isinstance(X, np.ndarray) and X.dtype.kind in "OV":
        package = "builtins"
    elif package not in _READERS or isinstance(X, np.ndarray) or sp.issparse(X):  # anndata has subclasses of both
        return None
    module, name = _READERS[package].split(":")
    return getattr(importlib.import_module(f"projbank.rows.{module}"), name)(X)


def row_blocks(n_rows: int, n_features: int, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
    """Cut the rows into (start, stop) blocks of at most `budget` bytes, whole tiles of 8 rows where possible."""
    rows = max(8, budget // (4 * max(1, n_features)) // 8 * 8)
    return split_rows(n_rows, rows)


def as_floats(block: Any) -> Floats:
    """Return a block as float32 with neighbouring columns adjacent in memory; a view where it is already like that."""
    block = np.asarray(block)
    if block.dtype == np.float32 and (block.strides[1] == 4 or block.shape[1] == 1) and block.strides[0] % 4 == 0:
        return block
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(block, dtype=np.float32)


def check_finite(
    block: NDArray[np.floating], first_row: int = 0, name: str = "X", *, ids: NDArray[np.int64] | None = None
) -> None:
    """Raise for the first NaN or infinity of a block, naming its row and column in the whole array.

    The block's rows follow `first_row` there, or have the numbers `ids`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(block.sum(dtype=np.float64)):  # one cheap pass: a bad value always spoils the sum
            return
    good = np.isfinite(block)
    if good.all():
        return
    row, column = np.unravel_index(np.argmin(good), good.shape)
    value = "NaN" if np.isnan(block[row, column]) else "infinity or a value too large for float32"
    number = first_row + row if ids is None else ids[row]
    raise ValueError(f"{name} contains {value} at row {number}, column {column}.")


def _column_statistics(rows: RowSource, name: str) -> Statistics:
    n_rows, n_features = rows.shape
    first = rows.block(0, 1)[0].astype(np.float64)  # sums of differences lose no digits to a large mean
    check_finite(first[None].astype(np.float32), 0, name)
    sums, squares = np.zeros(n_features), np.zeros(n_features)
    for start, block in rows.blocks():
        check_finite(block, start, name)
        for part in np.array_split(block, max(1, len(block) // 16)):
            differences = part - first
            sums += differences.sum(axis=0)
            squares += np.einsum("ij,ij->j", differences, differences)
    offsets = sums / n_rows
    means, deviations = first + offsets, np.sqrt(np.maximum(squares / n_rows - offsets**2, 0.0))
    largest = int(np.argmax(np.hypot(means, deviations)))
    if np.hypot(means[largest], deviations[largest]) > LARGEST:
        raise ValueError(
            f"{name} is too large in column {largest}: scale it to a root mean square of at most {LARGEST:g}."
        )
    if n_rows > 1 and not deviations.any():
        warnings.warn(f"{name}: all rows are the same: nothing can be learnt from them.", UserWarning, stacklevel=3)
    return Statistics(means, deviations)


def mapped_file(block: NDArray[Any]) -> np.memmap[Any, Any] | None:
    """The file mapped for reading that an array is a part of, if it is."""
    base: Any = block
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    while isinstance(base, np.memmap) and isinstance(base.base, np.memmap):
        base = base.base
    return base if isinstance(base, np.memmap) and base.mode == "r" else None


def release_pages(block: NDArray[Any]) -> None:
    """Let go of the memory behind a block of a file that is mapped for reading (the file's cache keeps it).

    Pages of a mapped file that were read count as the process's memory until then.
    """
    base = mapped_file(block)
    if base is None or not hasattr(mmap.mmap, "madvise"):
        return
    page = mmap.ALLOCATIONGRANULARITY
    file_start = base.ctypes.data - base.offset % page  # a map begins at a whole page
    low, high = np.lib.array_utils.byte_bounds(block)
    start = max(0, low - file_start) // page * page
    base._mmap.madvise(mmap.MADV_DONTNEED, start, high - file_start - start)  # type: ignore[attr-defined]
