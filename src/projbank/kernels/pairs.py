"""The pair hinge over all N^2 ordered pairs, exactly, in O(N log N) per group (DESIGN section 4).

With f_i the margins of one group and l_ij = +1 on the positive pairs, -1 elsewhere,

    H = sum over i, j of max(0, 1 - l_ij f_i f_j).

All pairs are first taken as negative: sorted margins and prefix sums give that part in one sweep. The positive pairs
(edges of the neighbour graph, diagonal included) are then corrected one by one, for a lot of 16 groups at once.
Margins lie group after group: F (T, N).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from projbank.kernels.jit import kernel

GROUPS = 16
"""Groups in a lot: one cache line of float32 per sample."""

_NEIGHBOR_ROWS = 4096
"""Samples whose margins (256 kB) serve as neighbours at a time: they stay in the second-level cache."""

_DIGIT = 11
_BUCKETS = 1 << _DIGIT


@njit
def _sorted_keys(margins, keys, spare, counts):
    """Sort margins by a radix sort; each key holds a margin's ordered bits above its index."""
    n = margins.size
    counts[:] = 0
    for i in range(n):
        bits = np.float32(margins[i] + np.float32(0)).view(np.uint32)  # + 0 turns -0 into 0
        ordered = bits ^ (np.uint32(0xFFFFFFFF) if bits >> np.uint32(31) else np.uint32(0x80000000))
        keys[i] = (np.uint64(ordered) << np.uint64(32)) | np.uint64(i)
        for d in range(3):
            counts[d, (ordered >> np.uint32(_DIGIT * d)) & np.uint32(_BUCKETS - 1)] += 1
    for d in range(3):
        total = 0
        for bucket in range(_BUCKETS):
            here = counts[d, bucket]
            counts[d, bucket] = total
            total += here
        shift = np.uint64(32 + _DIGIT * d)
        for i in range(n):
            bucket = (keys[i] >> shift) & np.uint64(_BUCKETS - 1)
            spare[counts[d, bucket]] = keys[i]
            counts[d, bucket] += 1
        keys, spare = spare, keys
    return keys


@njit
def _all_negative(margins, slopes, keys, spare, counts, values, prefix):
    """Sum of max(0, 1 + f_i f_j) over all ordered pairs; slopes = its gradient; also how many hinges sit at 0.

    As f_i grows, the pairs that are inactive (f_i f_j <= -1) grow from the other end of the sorted margins, so one
    moving bound serves all i. Products of two float32 are exact in float64, so the bound is too.
    """
    n = margins.size
    order = _sorted_keys(margins, keys, spare, counts)
    prefix[0] = 0.0
    for r in range(n):
        values[r] = margins[np.int64(order[r] & np.uint64(0xFFFFFFFF))]
        prefix[r + 1] = prefix[r] + values[r]
    loss = 0.0
    kinks = 0
    start = np.searchsorted(values, 0.0)
    below, bound = 0, 0
    for r in range(start, n):  # f >= 0: active are the margins from `bound` on, beyond 0 those before `below`
        value = values[r]
        while bound < n and value * values[bound] <= -1.0:
            bound += 1
        while below < n and value * values[below] < -1.0:
            below += 1
        kinks += bound - below
        total = prefix[n] - prefix[bound]
        loss += (n - bound) + value * total
        slopes[np.int64(order[r] & np.uint64(0xFFFFFFFF))] = 2.0 * total
    below, bound = n, n
    for r in range(start - 1, -1, -1):  # f < 0: the same from the other end
        value = values[r]
        while bound > 0 and value * values[bound - 1] <= -1.0:
            bound -= 1
        while below > 0 and value * values[below - 1] < -1.0:
            below -= 1
        kinks += below - bound
        total = prefix[bound]
        loss += bound + value * total
        slopes[np.int64(order[r] & np.uint64(0xFFFFFFFF))] = 2.0 * total
    return loss, kinks


@njit
def _correct_positives(lot, indptr, indices, slopes, losses, kinks):
    """Turn the positive pairs of a lot (N, 16) of margins from negative ones into positive ones.

    A positive pair replaces max(0, 1 + s) by max(0, 1 - s), s = f_i f_j: the loss changes by -s - clip(s, -1, 1), the
    slope in f_i by -2 (1 + [|s| < 1]) f_j over both orders of the pair.
    """
    n = lot.shape[0]
    one, two = np.float32(1), np.float32(2)
    slope = np.empty(GROUPS, np.float32)
    change = np.empty(GROUPS, np.float32)
    corner = np.empty(GROUPS, np.int32)
    cursors = indptr[:-1].copy()
    for end in range(_NEIGHBOR_ROWS, n + _NEIGHBOR_ROWS, _NEIGHBOR_ROWS):
        for i in range(n):
            e, last = cursors[i], indptr[i + 1]
            if e == last or indices[e] >= end:
                continue
            slope[:] = 0
            change[:] = 0
            corner[:] = 0
            while e < last and indices[e] < end:
                j = indices[e]
                for t in range(GROUPS):
                    other = lot[j, t]
                    s = lot[i, t] * other
                    change[t] -= s + min(max(s, -one), one)
                    slope[t] += other + (other if abs(s) < one else np.float32(0))
                    corner[t] += np.int32(s == one) - np.int32(s == -one)
                e += 1
            cursors[i] = e
            for t in range(GROUPS):
                slopes[i, t] -= two * slope[t]
                losses[t] += change[t]
                kinks[t] += corner[t]


@kernel("void(float32[:, ::1], int64[::1], int32[::1], float32[:, ::1], float64[::1], int64[::1])")
def pair_hinge(F, indptr, indices, G, losses, kinks):
    """losses[t] = H of group t, G = dH/dF, kinks[t] = number of pairs whose hinge sits exactly at 0.

    F and G (T, N) float32; indptr, indices: CSR of the positive pairs, symmetric, sorted, with the diagonal.
    """
    n_groups, n = F.shape
    keys, spare = np.empty(n, np.uint64), np.empty(n, np.uint64)
    counts = np.empty((3, _BUCKETS), np.int64)
    values, prefix = np.empty(n, np.float64), np.empty(n + 1, np.float64)
    lot, slopes = np.empty((n, GROUPS), np.float32), np.empty((n, GROUPS), np.float32)
    lot_losses, lot_kinks = np.empty(GROUPS, np.float64), np.empty(GROUPS, np.int64)
    for first in range(0, n_groups, GROUPS):
        width = min(GROUPS, n_groups - first)
        lot[:, width:] = 0
        for t in range(width):
            lot_losses[t], lot_kinks[t] = _all_negative(F[first + t], G[first + t], keys, spare, counts, values, prefix)
            for i in range(n):
                lot[i, t] = F[first + t, i]
                slopes[i, t] = G[first + t, i]
        _correct_positives(lot, indptr, indices, slopes, lot_losses, lot_kinks)
        for t in range(width):
            losses[first + t], kinks[first + t] = lot_losses[t], lot_kinks[t]
            for i in range(n):
                G[first + t, i] = slopes[i, t]


@kernel(
    "void(float32[:, ::1], int64[::1], int64[::1], Array(float32, 1, 'C'), Array(float32, 1, 'C'), float32[:, ::1])"
)
def project_groups(XT, firsts, starts, weights, biases, F):
    """F[t, i] = sum over the dimensions of group t of their weights * XT[:, i] - biases[t].

    XT (m, N): dimensions, those of a group in a row; firsts (T,): where each group's dimensions begin in XT; starts
    (T + 1,): where each group's weights begin.
    """
    for t in range(firsts.size):
        margins = F[t]
        margins[:] = -biases[t]
        for q in range(starts[t + 1] - starts[t]):
            weight, row = weights[starts[t] + q], XT[firsts[t] + q]
            for i in range(margins.size):
                margins[i] += weight * row[i]


@kernel("void(float32[:, ::1], int64[::1], int64[::1], float32[:, ::1], float32[::1], float32[::1])", reorder=True)
def project_slopes(XT, firsts, starts, G, weight_slopes, bias_slopes):
    """Chain rule of `project_groups`: slopes XT[q] . G[t] for the weights of group t, -sum of G[t] for its bias."""
    for t in range(firsts.size):
        slopes, total = G[t], 0.0
        for i in range(slopes.size):
            total += slopes[i]
        bias_slopes[t] = -total
        for q in range(starts[t + 1] - starts[t]):
            row, dot = XT[firsts[t] + q], np.float32(0)
            for i in range(slopes.size):
                dot += row[i] * slopes[i]
            weight_slopes[starts[t] + q] = dot


@kernel("void(Array(float32, 2, 'A', readonly=True), int64[::1], float32[:, ::1], int64)")
def gather_columns(X, columns, XT, first):
    """XT[q, first + i] = X[i, columns[q]], in strips of 16 rows so that whole cache lines are written."""
    n_rows = X.shape[0]
    for start in range(0, n_rows, 16):
        stop = min(start + 16, n_rows)
        for q in range(columns.size):
            for i in range(start, stop):
                XT[q, first + i] = X[i, columns[q]]
