"""How well dimensions could serve bits, for the choice of learnt groups."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel


@kernel("void(float32[:, ::1], float32[:, ::1], int32[:, ::1], float32[:, ::1])", reorder=True)
def score_candidates(directions, loadings, candidates, scores):
    """Scores (D, c): sizes of the inner products of loadings (D, h) with the directions (d, h) of the candidates."""
    for j in range(candidates.shape[0]):
        for k in range(candidates.shape[1]):
            row = candidates[j, k]
            total = np.float32(0)
            for c in range(loadings.shape[1]):
                total += directions[row, c] * loadings[j, c]
            scores[j, k] = abs(total)
