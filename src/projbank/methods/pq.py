"""PQ: product quantisation by FAISS, compared asymmetrically (Jegou, Douze, Schmid, PAMI 2011); RR+PQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import Floats, Method, learnt
from projbank.methods.dense import DENSE_ROWS, gaussian_matrix
from projbank.models.file import ModelFileError
from projbank.params import checks, whole
from projbank.rows.source import RowSource, as_rows
from projbank.threads import faiss_threads

CODE_BITS = 8


@dataclass(eq=False, repr=False, kw_only=True)
class PQ(Method):
    """A vector is cut into n_bits / 8 parts, each replaced by the nearest of 256 centres.

    Where the parts do not divide D, zeros are added. With fewer than 256 training vectors a part has fewer centres (a
    power of 2) and there are more parts, so that the code keeps its length.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, rounded down to whole parts; at most 8 D. "auto" is about D / 16.
    max_iter : int
        Iterations of k-means.

    Attributes
    ----------
    centroids_ : (parts, centres, dimensions of a part) float32
    """

    distance = "adc"
    _checks = checks(max_iter=whole(1))
    max_iter: int = 25
    centroids_: Floats = learnt("float32", "* * *")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_samples = X.shape[0]
        n_inputs = self._prepare(X.shape[1], n_bits, rng)
        part_bits = min(CODE_BITS, int(np.log2(n_samples)))
        n_parts = max(1, n_bits // part_bits)
        self._limit_bits(n_parts * part_bits, n_inputs * part_bits, f"{part_bits} bits for each dimension")
        width = -(-n_inputs // n_parts)
        points = np.empty((n_samples, n_inputs), np.float32)
        for start, stop in X.bounds():
            points[start:stop] = self._reduce(X.block(start, stop))
        self.centroids_ = learn_centroids(
            pad(points, n_parts * width),
            n_parts,
            part_bits,
            n_iter=self.max_iter,
            seed=int(rng.integers(1, 2**31)),
            n_jobs=self.n_jobs,
        )
        return n_parts * part_bits

    def _prepare(self, n_features: int, n_bits: int, rng: np.random.Generator) -> int:
        """Draw what `_reduce` needs; returns how many numbers it gives."""
        return n_features

    @property
    def _n_inputs(self) -> int:
        """How many numbers `_reduce` gives."""
        return self.n_features_in_

    def _reduce(self, rows: Floats) -> Floats:
        """Map rows to the numbers that are quantised."""
        return rows

    def _check_arrays(self) -> None:
        n_parts, n_centres, width = self.centroids_.shape
        n_inputs = self._n_inputs
        part_bits = n_centres.bit_length() - 1
        if n_centres not in range(1, 257) or n_centres != 1 << part_bits or self.n_bits_ != n_parts * part_bits:
            raise ModelFileError("centroids_ do not fit the length of the code")
        if not n_inputs <= n_parts * width < n_inputs + n_parts:
            raise ModelFileError("centroids_ do not fit the vectors")

    def _derive(self) -> None:
        self._quantizer = build_quantizer(self.centroids_)
        self.n_iter_ = self.max_iter

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        points = self._padded(rows)
        out[:] = self._quantizer.compute_codes(points)
        return bool(np.isfinite(points).all())

    def search_codes(self, queries: Any, codes: NDArray[np.uint8], k: int) -> tuple[Floats, NDArray[np.int64]]:
        """Nearest codes of real-valued queries (n, D) by the distance to the centres: distances and rows, (n, k)."""
        import faiss

        index = faiss.IndexPQ(self._quantizer.d, self._quantizer.M, self._quantizer.nbits)
        index.pq = self._quantizer
        index.is_trained = True
        index.add_sa_codes(np.ascontiguousarray(codes))
        return index.search(self._padded(as_rows(queries).block(0, queries.shape[0])), k)

    def decode(self, codes: NDArray[np.uint8]) -> Floats:
        """Centres that codes stand for, one after another: (n, numbers that were quantised) float32."""
        return np.asarray(self._quantizer.decode(np.ascontiguousarray(codes)), np.float32)

    def _padded(self, rows: Floats) -> Floats:
        return pad(self._reduce(rows), self._quantizer.d)

    @property
    def _n_features_out(self) -> int:
        return (self.n_bits_ + 7) // 8

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_quantizer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "centroids_"):
            self._derive()


def pad(points: Floats, width: int) -> Floats:
    """Points with columns of zeros up to `width`, contiguous."""
    if points.shape[1] == width:
        return np.ascontiguousarray(points)
    padded = np.zeros((len(points), width), np.float32)
    padded[:, : points.shape[1]] = points
    return padded


def learn_centroids(
    points: Floats, n_parts: int, part_bits: int, *, n_iter: int, seed: int, n_jobs: int | None
) -> Floats:
    """Centres of each part by FAISS's k-means, (parts, 2 ** part_bits, width)."""
    import faiss

    quantizer = faiss.ProductQuantizer(points.shape[1], n_parts, part_bits)
    quantizer.cp.niter = n_iter
    quantizer.cp.seed = seed
    quantizer.cp.min_points_per_centroid = 1
    quantizer.cp.max_points_per_centroid = len(points)
    with faiss_threads(n_jobs):
        quantizer.train(points)
    return faiss.vector_to_array(quantizer.centroids).reshape(n_parts, 2**part_bits, -1)


def build_quantizer(centroids: Floats) -> Any:
    """FAISS's quantiser with the given centres."""
    import faiss

    n_parts, n_centres, width = centroids.shape
    quantizer = faiss.ProductQuantizer(n_parts * width, n_parts, n_centres.bit_length() - 1)
    faiss.copy_array_to_vector(np.ascontiguousarray(centroids).ravel(), quantizer.centroids)
    return quantizer


@dataclass(eq=False, repr=False, kw_only=True)
class RandomRotationPQ(PQ):
    """PQ of x' W with independent W_jp ~ N(0, 1 / n_bits): n_bits numbers in parts of 8.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, and numbers after the projection (no more than D); "auto" is about D / 16.
    max_iter : int
        Iterations of k-means.

    Attributes
    ----------
    projection_ : (D, numbers) float32
    centroids_ : (parts, centres, numbers of a part) float32
    """

    _block_rows = DENSE_ROWS
    max_memory: float = 8.0
    projection_: Floats = learnt("float32", "D *")

    def _prepare(self, n_features: int, n_bits: int, rng: np.random.Generator) -> int:
        n_columns = min(n_bits, n_features)
        self.projection_ = gaussian_matrix(self, n_features, n_columns, rng)
        self.projection_ *= np.float32(1 / np.sqrt(n_columns))
        return n_columns

    @property
    def _n_inputs(self) -> int:
        return self.projection_.shape[1]

    def _reduce(self, rows: Floats) -> Floats:
        return rows @ self.projection_
