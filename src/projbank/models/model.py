"""What was learnt: arrays, and how rows become margins, bits and queries for asymmetric search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from projbank.rows.source import RowSource

Floats = NDArray[np.float32]


class Model(ABC):
    """A model has `arrays`, which are its file, and writes the codes or margins of rows.

    A subclass names its arrays in `names`; each is an attribute. `loss_curve` tells how learning went and is not needed
    for coding.
    """

    names: ClassVar[tuple[str, ...]]
    has_query_bits: ClassVar[bool] = False
    """Whether a query has other bits than a row, those above 0 in its `query_values`."""
    biases: Floats
    loss_curve: NDArray[np.float64]

    @classmethod
    @abstractmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]], params: dict[str, Any]) -> Self:
        """Build a model from the arrays of a file and its estimator's parameters.

        Raises ModelFileError where the arrays do not fit each other.
        """

    @abstractmethod
    def write(self, rows: RowSource, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of rows into an array, which may be a memory map.

        A row gets the same bits in any block, on any number of threads.
        """

    @property
    @abstractmethod
    def n_features(self) -> int:
        """D."""

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return len(self.biases)

    @property
    @abstractmethod
    def group_sizes(self) -> NDArray[np.int64]:
        """Dimensions of each group."""

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was learnt, by name."""
        return {name: getattr(self, name) for name in self.names}

    @property
    def nbytes(self) -> int:
        """Bytes of what coding needs."""
        return sum(array.nbytes for name, array in self.arrays.items() if name != "loss_curve")

    def margins(self, rows: RowSource, *, n_threads: int = 1, verbose: int = 0) -> Floats:
        """Margins of rows, (n, n_bits)."""
        out = np.empty((rows.shape[0], self.n_bits), np.float32)
        self.write(rows, out, n_threads=n_threads, verbose=verbose)
        return out

    def query_values(self, rows: RowSource, *, n_threads: int = 1, verbose: int = 0) -> Floats:
        """Queries for asymmetric search, (n, n_bits): the margins, where a model knows nothing better."""
        return self.margins(rows, n_threads=n_threads, verbose=verbose)
