"""A data set under evaluation, and how its rows become queries, gallery and training set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.params import check_int
from projbank.rows.source import as_rows, check_finite

MAX_QUERIES = 1000
MAX_TRAINING = 10_000
UNKNOWN = -1
"""Label of a row that has none."""


@dataclass(frozen=True)
class DataSet:
    """Vectors (n, D), their labels (n,) or None, and a name."""

    name: str
    vectors: Any
    labels: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.labels is None:
            return
        if self.labels.shape != (self.vectors.shape[0],):
            raise ValueError(
                f"labels must be 1-D, one per vector ({self.vectors.shape[0]}). Got shape {self.labels.shape}."
            )
        if np.all(self.labels == UNKNOWN):
            raise ValueError(
                f"labels of {self.name} are all {UNKNOWN} (unknown). Without labels, recall of the floats' own "
                "neighbours can be measured instead."
            )

    @property
    def identity(self) -> dict[str, Any]:
        """Name, size and a hash of the labels and of some rows: results with another identity are of other data."""
        n_rows, n_features = self.vectors.shape
        digest = hashlib.sha256(b"" if self.labels is None else np.ascontiguousarray(self.labels).tobytes())
        rows = as_rows(self.vectors)
        for start in sorted({int(row) for row in np.linspace(0, n_rows - 1, 16)}):
            digest.update(np.ascontiguousarray(rows.block(start, start + 1)).tobytes())
        return {
            "name": self.name,
            "vectors": int(n_rows),
            "dimensions": int(n_features),
            "fingerprint": digest.hexdigest()[:16],
        }

    def take(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of ascending ids as one float32 array; raises for the first NaN or infinity."""
        rows = as_rows(self.vectors).read(ids)
        check_finite(rows, name="vectors", ids=ids)
        return rows


class Split(NamedTuple):
    """Ascending row numbers; training rows are part of the gallery, queries are not."""

    queries: NDArray[np.int64]
    gallery: NDArray[np.int64]
    training: NDArray[np.int64]


def split_sizes(
    n_rows: int, n_queries: int | None = None, n_train: int | None = None, max_train: int = MAX_TRAINING
) -> tuple[int, int]:
    """Sizes of query and training set: 1,000 queries but at most a tenth, two thirds of the gallery to learn from."""
    if n_rows < 4:
        raise ValueError(f"vectors must be at least 4, for queries, a gallery and training. Got {n_rows}.")
    if n_queries is None:
        n_queries = max(1, min(MAX_QUERIES, n_rows // 10))
    n_queries = check_int("evaluate", "n_queries", n_queries, 1, n_rows - 2)
    n_gallery = n_rows - n_queries
    if n_train is None:
        n_train = max(2, min(max_train, 2 * n_gallery // 3))
    return n_queries, check_int("evaluate", "n_train", n_train, 2, n_gallery)


def draw_split(n_rows: int, n_queries: int, n_train: int, seed: int) -> Split:
    """Random queries; the rest is the gallery; training is a random part of it."""
    order = np.random.default_rng(seed).permutation(n_rows)
    gallery = order[n_queries:]
    return Split(np.sort(order[:n_queries]), np.sort(gallery), np.sort(gallery[:n_train]))
