"""RaBitQ by FAISS, after a random rotation and reduction to as many numbers as bits (Gao and Long, SIGMOD 2024)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import Floats, Method, check_indices
from projbank.methods.srht import SubsampledHadamard, draw_hadamard, padded_size
from projbank.params import checks, whole
from projbank.rows.source import RowSource, as_rows


@dataclass(eq=False, repr=False, kw_only=True)
class RaBitQ(Method):
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
    _arrays = (("signs_", "uint8", "D"), ("chosen_", "int64", "d"), ("center_", "float32", "d"))
    _checks = checks(query_bits=whole(0, 8))
    query_bits: int = 8
    signs_: NDArray[np.uint8] = field(init=False)
    chosen_: NDArray[np.int64] = field(init=False)
    center_: Floats = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self._limit_bits(n_bits, padded_size(X.shape[1]), "the power of 2 that holds the features")
        self.signs_, self.chosen_ = draw_hadamard(X.shape[1], n_bits, rng)
        reduce = SubsampledHadamard(self.signs_, self.chosen_)
        self.center_ = np.ascontiguousarray(reduce(means.astype(np.float32)[None])[0])
        return n_bits

    def _check_arrays(self) -> None:
        check_indices("chosen_", self.chosen_, padded_size(self.n_features_in_))

    def _derive(self) -> None:
        self._transform = SubsampledHadamard(self.signs_, self.chosen_)

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        points = self._transform(rows)
        out[:] = self._index().sa_encode(points)
        return bool(np.isfinite(points).all())

    def search_codes(self, queries: Any, codes: NDArray[np.uint8], k: int) -> tuple[Floats, NDArray[np.int64]]:
        """Nearest codes of real-valued queries (n, D) by RaBitQ's estimate: squared distances and rows, (n, k)."""
        index = self._index()
        index.add_sa_codes(np.ascontiguousarray(codes))
        return index.search(self._transform(as_rows(queries).block(0, queries.shape[0])), k)

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
