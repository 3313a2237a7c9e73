"""A data set under evaluation, and how its rows become queries, gallery and training set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.params import check_int
from projbank.rows.source import read_rows

MAX_QUERIES = 1000
MAX_TRAINING = 10_000


@dataclass(frozen=True)
class DataSet:
    """Vectors (n, D), labels (n,) and a name; `fingerprint` tells whether results belong to the same data."""

    name: str
    vectors: Any
    labels: NDArray[Any]

    def __post_init__(self) -> None:
        if self.labels.ndim != 1 or len(self.labels) != self.vectors.shape[0]:
            raise ValueError(
                f"labels must be 1-D, one per vector ({self.vectors.shape[0]}). Got shape {self.labels.shape}."
            )

    @property
    def identity(self) -> dict[str, Any]:
        """Name, size and a hash of the labels and of some rows from all over the vectors."""
        n_rows, n_features = self.vectors.shape
        digest = hashlib.sha256(np.ascontiguousarray(self.labels).tobytes())
        for start in sorted({int(row) for row in np.linspace(0, n_rows - 1, 16)}):
            digest.update(np.ascontiguousarray(read_rows(self.vectors, start, start + 1)).tobytes())
        return {
            "name": self.name,
            "vectors": int(n_rows),
            "dimensions": int(n_features),
            "fingerprint": digest.hexdigest()[:16],
        }


class Split(NamedTuple):
    """Ascending row numbers; training rows are part of the gallery, queries are not."""

    queries: NDArray[np.int64]
    gallery: NDArray[np.int64]
    training: NDArray[np.int64]


def split_sizes(n_rows: int, n_queries: int | None = None, n_train: int | None = None) -> tuple[int, int]:
    """Sizes of query and training set: 1,000 queries but at most a tenth, two thirds of the gallery to learn from."""
    if n_rows < 4:
        raise ValueError(f"vectors must be at least 4, for queries, a gallery and training. Got {n_rows}.")
    if n_queries is None:
        n_queries = max(1, min(MAX_QUERIES, n_rows // 10))
    n_queries = check_int("evaluate", "n_queries", n_queries, 1, n_rows - 2)
    n_gallery = n_rows - n_queries
    if n_train is None:
        n_train = max(2, min(MAX_TRAINING, 2 * n_gallery // 3))
    return n_queries, check_int("evaluate", "n_train", n_train, 2, n_gallery)


def draw_split(n_rows: int, n_queries: int, n_train: int, seed: int) -> Split:
    """Random queries; the rest is the gallery; training is a random part of it."""
    order = np.random.default_rng(seed).permutation(n_rows)
    gallery = order[n_queries:]
    return Split(np.sort(order[:n_queries]), np.sort(gallery), np.sort(gallery[:n_train]))
