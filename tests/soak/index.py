"""Random operations on an index and on a dictionary of codes, which must agree."""

from pathlib import Path

import numpy as np

from projbank import HammingIndex

LARGEST = 400


class Soak:
    """An index that lives in a file, and what it should hold.

    Parameters
    ----------
    path : the file
    n_bits : length of the codes
    seed : of the operations
    """

    def __init__(self, path, n_bits, seed):
        self.path, self.n_bits = Path(path), n_bits
        self.rng = np.random.default_rng([seed, n_bits])
        self.known = {}
        self.next_id = 0
        self.index = HammingIndex(n_bits=n_bits)
        self.index.save(self.path)

    def step(self):
        """One operation, chosen at random; AssertionError where index and dictionary disagree."""
        names = ["add", "add", "add_own", "remove", "search", "search", "within", "reconstruct", "append", "reload"]
        name = names[self.rng.integers(len(names))]
        if name in ("remove", "reconstruct") and not self.known:
            name = "add"
        if len(self.known) > LARGEST:
            name = "remove"
        getattr(self, f"_{name}")()
        assert len(self.index) == len(self.known)
        return name

    def _codes(self, n):
        bits = self.rng.integers(0, 2, (n, self.n_bits))
        if self.known and self.rng.integers(2):  # near copies, so that distances tie
            bits[0] = np.unpackbits(self._some(1)[1][0], count=self.n_bits, bitorder="little")
            bits[0, self.rng.integers(self.n_bits)] ^= 1
        return np.packbits(bits, axis=1, bitorder="little")

    def _some(self, n):
        ids = self.rng.choice(list(self.known), min(n, len(self.known)), replace=False)
        return ids, np.array([self.known[i] for i in ids.tolist()])

    def _add(self):
        codes = self._codes(int(self.rng.integers(1, 6)))
        self.index.add(codes)
        for code in codes:
            self.known[self.next_id] = code
            self.next_id += 1

    def _add_own(self):
        codes = self._codes(int(self.rng.integers(1, 4)))
        ids = self.next_id + self.rng.permutation(10)[: len(codes)]
        self.index.add(codes, ids=ids)
        self.known.update(zip(ids.tolist(), codes, strict=True))
        self.next_id = max(self.next_id, int(ids.max()) + 1)

    def _remove(self):
        ids, _ = self._some(int(self.rng.integers(1, 60 if len(self.known) > LARGEST else 4)))
        self.index.remove(ids)
        for i in ids.tolist():
            del self.known[i]

    def _reconstruct(self):
        ids, codes = self._some(5)
        np.testing.assert_array_equal(self.index.reconstruct(ids), codes)

    def _distances(self, query):
        """Ids by distance, ties by id, and the distances."""
        ids = np.array(sorted(self.known), np.int64)
        if not len(ids):
            return ids, np.empty(0, np.int32)
        codes = np.array([self.known[i] for i in ids.tolist()])
        distances = np.bitwise_count(codes ^ query).sum(axis=1).astype(np.int32)
        order = np.lexsort((ids, distances))
        return ids[order], distances[order]

    def _search(self):
        query, k = self._codes(1)[0], int(self.rng.integers(1, 12))
        if not self.known:
            return
        ids, distances = self._distances(query)
        found_distances, found = self.index.search(query[None], k=min(k, len(ids)), n_jobs=1)
        np.testing.assert_array_equal(found[0], ids[:k])
        np.testing.assert_array_equal(found_distances[0], distances[:k])

    def _within(self):
        query, limit = self._codes(1)[0], int(self.rng.integers(0, self.n_bits // 2 + 1))
        ids, distances = self._distances(query)
        limits, found_distances, found = self.index.range_search(query[None], limit, n_jobs=1)
        assert limits.tolist() == [0, len(found)]
        np.testing.assert_array_equal(found, ids[distances <= limit])
        np.testing.assert_array_equal(found_distances, distances[distances <= limit])

    def _append(self):
        self.index.save()

    def _reload(self):
        self.index.save(self.path if self.rng.integers(20) == 0 else None)
        self.index = HammingIndex.load(self.path)
