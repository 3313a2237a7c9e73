"""BPBC: bilinear projections, two small rotations that are learnt (Gong, Kumar, Rowley, Lazebnik, CVPR 2013)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projbank.learn.rotation import nearest_rotation
from projbank.methods.base import Floats, Iterative, Method, centred_thresholds, learnt
from projbank.methods.pq import pad
from projbank.models.file import ModelFileError
from projbank.params import auto, checks, whole
from projbank.progress import progress
from projbank.rows.source import RowSource

_LEARN_BYTES = 64 << 20


@dataclass(eq=False, repr=False, kw_only=True)
class BPBC(Iterative, Method):
    """Bits are the signs of R1' X R2, X the vector as a D1 x D2 matrix, R1 and R2 with orthonormal columns.

    Alternately the bits B_i = sign(R1' X_i R2), then R2, then R1 are chosen best for the sum of tr(B_i' R1' X_i R2),
    each by a singular value decomposition.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most D; "auto" is about D / 16. It need not be a product: spare bits are dropped.
    n_rows : int or "auto"
        D1; D2 is as large as D needs (zeros are added where D1 does not divide D). "auto": a nearly square matrix.
    max_iter : int
        Iterations; 0 leaves the random rotations.
    center : bool
        Subtract the mean of the training data, as the source does.

    Attributes
    ----------
    left_ : (D1, d1) float32
    right_ : (D2, d2) float32
    thresholds_ : (n_bits,) float32
    objective_curve_ : (max_iter + 1,) float64
        Minus the mean over training vectors of tr(B' R1' X R2), after each choice of B.
    """

    _block_bytes = 4 << 20
    _checks = checks(max_iter=whole(0), n_rows=auto(whole(1)))
    n_rows: int | str = "auto"
    max_iter: int = 10
    center: bool = True
    left_: Floats = learnt("float32", "* *")
    right_: Floats = learnt("float32", "* *")
    thresholds_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        self._limit_bits(n_bits, n_features, "the number of features")
        if isinstance(self.n_rows, str):
            n_left, n_right = near_square(n_features)
        else:
            n_left, n_right = int(self.n_rows), -(-n_features // int(self.n_rows))
        bits_left, bits_right = code_shape(n_bits, n_left, n_right)
        self.left_ = nearest_rotation(rng.standard_normal((n_left, bits_left), dtype=np.float32))
        self.right_ = nearest_rotation(rng.standard_normal((n_right, bits_right), dtype=np.float32))
        curve = []
        offset = means if self.center else np.zeros(n_features)
        with progress("BPBC", self.max_iter, self.verbose) as advance:
            for step in range(self.max_iter + 1):
                signs, towards_right, gain = self._choose_bits(X, offset)
                curve.append(-gain / X.shape[0])
                if step < self.max_iter:
                    self.right_ = nearest_rotation(towards_right)
                    self.left_ = nearest_rotation(self._towards_left(X, offset, signs))
                    advance(1)
        self.objective_curve_ = np.array(curve)
        self.thresholds_ = centred_thresholds(self._project, means, self.center, n_bits)
        return n_bits

    def _matrices(self, X: RowSource, offset: NDArray[np.float64]) -> Iterator[tuple[int, int, Floats]]:
        """Blocks of centred training vectors as matrices, (n, D1, D2)."""
        for start, stop in X.bounds(_LEARN_BYTES):
            rows = np.subtract(X.block(start, stop), offset, dtype=np.float32)
            yield start, stop, self._as_matrices(rows)

    def _choose_bits(self, X: RowSource, offset: NDArray[np.float64]) -> tuple[NDArray[np.bool_], Floats, float]:
        """Bits (n, d1, d2) of the training data, the sum of X' R1 B, and that of |R1' X R2|."""
        n_bits = self.left_.shape[1], self.right_.shape[1]
        signs = np.empty((X.shape[0], *n_bits), bool)
        towards = np.zeros_like(self.right_)
        gain = 0.0
        for start, stop, matrices in self._matrices(X, offset):
            halves = np.matmul(self.left_.T, matrices)
            projected = halves @ self.right_
            signs[start:stop] = projected > 0
            gain += float(np.abs(projected).sum(dtype=np.float64))
            towards += halves.reshape(-1, halves.shape[2]).T @ _plus_minus(signs[start:stop]).reshape(-1, n_bits[1])
        return signs, towards, gain

    def _towards_left(self, X: RowSource, offset: NDArray[np.float64], signs: NDArray[np.bool_]) -> Floats:
        """Sum of X R2 B' over the training data, (D1, d1)."""
        towards = np.zeros_like(self.left_)
        for start, stop, matrices in self._matrices(X, offset):
            halves = matrices @ self.right_
            towards += np.tensordot(halves, _plus_minus(signs[start:stop]), axes=((0, 2), (0, 2)))
        return towards

    def _as_matrices(self, rows: Floats) -> Floats:
        n_left, n_right = len(self.left_), len(self.right_)
        return pad(rows, n_left * n_right).reshape(len(rows), n_left, n_right)

    def _check_arrays(self) -> None:
        size = len(self.left_) * len(self.right_)
        n_bits = self.left_.shape[1] * self.right_.shape[1]
        if not self.n_features_in_ <= size <= 4 * self.n_features_in_ or not self.n_bits_ <= n_bits <= 4 * self.n_bits_:
            raise ModelFileError("left_ and right_ do not fit the vectors and the code")

    def _project(self, rows: Floats) -> Floats:
        halves = np.matmul(self.left_.T, self._as_matrices(rows))
        return (halves.reshape(-1, len(self.right_)) @ self.right_).reshape(len(rows), -1)


def _plus_minus(signs: NDArray[np.bool_]) -> Floats:
    return np.where(signs, np.float32(1), np.float32(-1))


def near_square(n_features: int) -> tuple[int, int]:
    """D1 <= D2 near the square root of D: with D1 D2 = D if there is such a pair with D2 < 4 D1, else just above."""
    root = int(np.sqrt(n_features))
    for left in range(root, root // 2, -1):
        if n_features % left == 0:
            return left, n_features // left
    return root, -(-n_features // root)


def code_shape(n_bits: int, n_left: int, n_right: int) -> tuple[int, int]:
    """d1 <= D1 and d2 <= D2 in about the proportion of D1 and D2, with d1 d2 at least n_bits and little above."""
    left = np.arange(1, n_left + 1)
    right = -(-n_bits // left)
    waste = left * right / n_bits - 1
    cost = np.abs(np.log(left * n_right / (right * n_left))) + 4 * waste
    best = int(np.argmin(np.where(right <= n_right, cost, np.inf)))
    return int(left[best]), int(right[best])
