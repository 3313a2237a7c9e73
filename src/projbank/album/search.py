"""Searching an album: its codes in memory, and how alike a picture is to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projbank.album.store import Model, Store
from projbank.search import HammingIndex

MORE = 32
"""Candidates beyond those asked for, so that the order by exact similarity is right to the last place."""


@dataclass(frozen=True)
class Codes:
    """The codes of an album at one moment, ready to be searched."""

    model: Model
    ids: NDArray[np.int64]
    index: HammingIndex
    state: int
    """What `Store.changes` said then."""

    @classmethod
    def read(cls, store: Store) -> Codes | None:
        """Read all codes; None where nothing is learnt yet."""
        with store.transaction(write=False):
            state, model = store.changes(), store.model()
            if model is None:
                return None
            ids, codes = store.codes(model)
        return cls(model, ids, HammingIndex(codes, ids=ids, n_bits=model.n_bits), state)

    def nearest(self, values: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        """Numbers and similarities of the k contents that are most like all rows of `values`, the best first."""
        query = (values / np.maximum(np.abs(values).sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)).mean(axis=0)
        k = min(k, len(self.ids))
        if not k:
            return []
        _, found = self.index.search(query[None], min(k + MORE, len(self.ids)), query_bits=8, n_jobs=1)
        rows = np.searchsorted(self.ids, found[0])
        scores = similarities(query, self.index.codes[rows])
        order = np.lexsort((found[0], -scores))[:k]
        return [(int(found[0][i]), float(scores[i])) for i in order]


def similarities(query: NDArray[np.float32], codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return from -1 to 1 how far codes agree with real-valued bits: their weighted share, twice less 1."""
    bits = np.unpackbits(codes, axis=1, bitorder="little")[:, : len(query)]
    total = np.abs(query).sum()
    agreed = (2 * bits.astype(np.float32) - 1) @ query
    return np.asarray(np.clip(agreed / total, -1, 1) if total > 0 else np.zeros(len(codes)), dtype=np.float32)
