"""Random rotations by one Hadamard transform: SRHT + sign, and RaBitQ by FAISS (Gao and Long, SIGMOD 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.hadamard import hadamard_sample
from projbank.methods.base import Floats, Method, centred_thresholds, check_indices, learnt
from projbank.params import checks, whole
from projbank.rows.source import RowSource, as_rows


def padded_size(n_features: int) -> int:
    """Smallest power of 2 that holds so many dimensions, at least 64."""
    return max(64, 1 << (n_features - 1).bit_length())


@dataclass(eq=False, repr=False, kw_only=True)
class SubsampledMethod(Method):
    """H (signs * x), padded to a power of 2, at random places, scaled so that distances are kept on average."""

    signs_: NDArray[np.uint8] = learnt("uint8", "D")
    chosen_: NDArray[np.int64] = learnt("int64", "d")

    def _draw(self, n_features: int, n_bits: int, rng: np.random.Generator) -> None:
        """Draw random signs (D,) and places (n_bits,), ascending."""
        size = padded_size(n_features)
        self._limit_bits(n_bits, size, "the power of 2 that holds the features")
        self.signs_ = rng.integers(0, 2, n_features, dtype=np.uint8)
        self.chosen_ = np.sort(rng.choice(size, n_bits, replace=False))
        self._derive()

    def _check_arrays(self) -> None:
        check_indices("chosen_", self.chosen_, padded_size(self.n_features_in_))

    def _derive(self) -> None:
        scale = 1 / np.sqrt(len(self.chosen_))  # H x is sqrt(P) times a rotation, of which n of P coefficients are kept
        self._flips = np.where(self.signs_, -scale, scale).astype(np.float32)

    def _project(self, rows: Floats) -> Floats:
        values = np.empty((len(rows), len(self.chosen_)), np.float32)
        hadamard_sample(rows, self._flips, self.chosen_, padded_size(len(self.signs_)), values)
        return values


@dataclass(eq=False, repr=False, kw_only=True)
class SRHT(SubsampledMethod):
    """Bit p is 1 iff coefficient p of a subsampled randomised Hadamard transform is above its threshold.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most the power of 2 that holds D; "auto" is about D / 16.
    center : bool
        Hyperplanes pass through the mean of the training data; otherwise through 0.

    Attributes
    ----------
    signs_ : (D,) uint8
        1 where the sign of a dimension is flipped.
    chosen_ : (n_bits,) int64
        Coefficients that give bits.
    thresholds_ : (n_bits,) float32
    """

    center: bool = True
    thresholds_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self._draw(X.shape[1], n_bits, rng)
        self.thresholds_ = centred_thresholds(self._project, means, self.center, n_bits)
        return n_bits


@dataclass(eq=False, repr=False, kw_only=True)
class RaBitQ(SubsampledMethod):
    """One bit per number of the rotated, reduced and centred vector, and two float32 that correct the distance.

    The rotation is one randomised Hadamard transform, of which `n_bits` random coefficients are kept.

    Parameters
    ----------
    n_bits : int or "auto"
        Numbers after the reduction, each one bit, at most the power of 2 that holds D; "auto" is about D / 16.
    query_bits : int in [0, 8]
        Bits to which queries are rounded in search; 0 leaves them as they are.

    Attributes
    ----------
    signs_ : (D,) uint8
        1 where the sign of a dimension is flipped.
    chosen_ : (n_bits,) int64
        Coefficients that are kept.
    center_ : (n_bits,) float32
        The reduced mean of the training data.
    """

    distance = "adc"
    _checks = checks(query_bits=whole(0, 8))
    query_bits: int = 8
    center_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self._draw(X.shape[1], n_bits, rng)
        self.center_ = np.ascontiguousarray(self._project(means.astype(np.float32)[None])[0])
        return n_bits

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        points = self._project(rows)
        out[:] = self._index().sa_encode(points)
        return bool(np.isfinite(points).all())

    def search_codes(self, queries: Any, codes: NDArray[np.uint8], k: int) -> tuple[Floats, NDArray[np.int64]]:
        """Nearest codes of real-valued queries (n, D) by RaBitQ's estimate: squared distances and rows, (n, k)."""
        index = self._index()
        index.add_sa_codes(np.ascontiguousarray(codes))
        return index.search(self._project(as_rows(queries).block(0, queries.shape[0])), k)

    def _index(self) -> Any:
        """FAISS's index, trained by giving it the centre, empty."""
        import faiss

        index = faiss.IndexRaBitQ(self.n_bits_, faiss.METRIC_L2)
        faiss.copy_array_to_vector(self.center_, index.center)
        index.qb = self.query_bits
        index.is_trained = True
        return index

    @property
    def _n_features_out(self) -> int:
        return int(self._index().sa_code_size())
