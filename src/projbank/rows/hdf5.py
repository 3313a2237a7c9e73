"""Rows of an HDF5 data set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.rows.source import ALL, Floats, RowSource, as_floats
from projbank.threads import split_rows


class Hdf5Rows(RowSource):
    """Rows of an h5py data set, which is never turned into an array."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.shape = dataset.shape

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return as_floats(self._dataset[start:stop, columns])

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        for start, stop in split_rows(len(ids), 8):
            with np.errstate(over="ignore"):
                out[start:stop] = self._dataset[ids[start:stop]]
