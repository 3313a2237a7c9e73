"""Bits that are chosen together: one after the other is set as suits the others best, some times over."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel

_ROWS = "Array(float32, 2, 'A', readonly=True)"
_NUMBERS = "Array(float32, 1, 'C', readonly=True)"


@kernel(f"void({_ROWS}, {_NUMBERS}, {_NUMBERS}, float32[:, ::1], float64[::1])")
def centre(rows, means, factors, centred, halves):
    """Centred = (rows - means) * factors, (n, D); halves (n,): half the squared length of each, summed in order."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            value = (rows[i, j] - means[j]) * factors[j]
            centred[i, j] = value
            total += np.float64(value) * np.float64(value)
        halves[i] = total / 2


_WHOLE = "Array(float32, 2, 'C', readonly=True)"


@kernel(
    f"void({_WHOLE}, {_WHOLE}, Array(int64, 1, 'C', readonly=True), {_NUMBERS}, {_NUMBERS}, float32[:, ::1],"
    " float32[:, ::1], float32[:, ::1], float32[:, ::1])"
)
def descend(gram, shares, ends, weights, growth, rests, fields, signs, margins):
    """Set signs so that the sum over p of weights[p] (|e_p|^2 + g r_p^2) falls, bit after bit, g = growth[0], ...

    e_p and r_p are what the first ends[p] signs of a row leave of a vector and of a number: each sign adds a column of
    some matrix to the one, and a share to the other. gram (m, m): inner products of the columns that may change, times
    the weights of those p that have both; shares (n, n_bits); ends (P,) ascending, weights (P,); rests (n, P): r_p at
    the start, overwritten; fields (n, at least m): weighted inner products of columns and e_p, overwritten; signs
    (n, n_bits) of 1 and -1, changed in place; margins (n, n_bits): above 0 where a sign is 1, by half of what the
    other sign would have added in the last round, written for m bits.
    """
    m, n_ends = len(gram), len(ends)
    for i in range(len(signs)):
        for g in growth:
            first = 0
            for j in range(m):
                if ends[first] <= j:
                    first += 1
                sign, share = signs[i, j], shares[i, j]
                rest = np.float32(0)
                for p in range(first, n_ends):
                    rest += weights[p] * (rests[i, p] + sign * share)
                field = fields[i, j] + sign * gram[j, j] + g * share * rest
                margins[i, j] = field
                new = np.float32(1) if field > 0 else np.float32(-1)
                if new != sign:
                    step = new - sign
                    signs[i, j] = new
                    for p in range(first, n_ends):
                        rests[i, p] -= step * share
                    for other in range(m):
                        fields[i, other] -= step * gram[j, other]
