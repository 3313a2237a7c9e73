"""Rotations that bring vectors near the corners of a cube, so that bits keep what the vectors tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def learn_rotation(
    V: Floats,
    n_bits: int,
    n_iter: int,
    rng: np.random.Generator,
    *,
    edges: Floats | None = None,
    advance: Any = lambda steps: None,
) -> tuple[Floats, NDArray[np.float64]]:
    """Rotation R (k, n_bits), orthonormal rows, with V R (n, n_bits) near corners B, and |B - V R|^2 / n on the way.

    The step of Gong and Lazebnik (CVPR 2011) for k = n_bits; for fewer components |V R| = |V| still holds, so the step
    is still the best one. `edges` are half the edges of the cube, (n_bits,), else 1: a bit with a longer edge gets
    directions that vary more.
    """
    edges = np.ones(n_bits, np.float32) if edges is None else edges
    rotation = nearest_rotation(rng.standard_normal((V.shape[1], n_bits), dtype=np.float32))
    curve = np.empty(n_iter + 1)
    energy = float(np.einsum("ij,ij->", V, V, dtype=np.float64)) + len(V) * float(edges @ edges)
    for step in range(n_iter + 1):
        projected = V @ rotation
        curve[step] = (energy - 2 * (np.abs(projected) * edges).sum(dtype=np.float64)) / len(V)
        if step < n_iter:
            rotation = nearest_rotation(V.T @ np.where(projected > 0, edges, -edges))
            advance(1)
    return rotation, curve


def nearest_rotation(matrix: Floats) -> Floats:
    """Of the matrices with orthonormal rows (or columns, if those are fewer), the one nearest to a given matrix."""
    left, _, right = scipy.linalg.svd(matrix, full_matrices=False, overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(left @ right)
