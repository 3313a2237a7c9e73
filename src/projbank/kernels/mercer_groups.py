"""Plain loops over the samples of one group: distances to neighbours, kernel matrices, landmarks, widths of pairs."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel

_MATRIX = "Array(float32, 2, 'C', readonly=True)"


@kernel("void(Array(float32, 2, 'C', readonly=True), float32[:, ::1], int64)")
def move_to_means(samples, centers, n_iter):
    """Move the centres (m, L) to the means of the samples (n, m) that are nearest to them, `n_iter` times.

    Centres are held dimension after dimension, so that one sample is compared with 8 of them at a time. Ties go to
    the first centre; a centre without samples stays.
    """
    n, m = samples.shape
    n_centers = centers.shape[1]
    halves, scores = np.empty(n_centers, np.float32), np.empty(n_centers, np.float32)
    sums, counts = np.empty((n_centers, m), np.float64), np.empty(n_centers, np.int64)
    for _ in range(n_iter):
        halves[:] = 0
        for q in range(m):
            for c in range(n_centers):
                halves[c] += np.float32(0.5) * centers[q, c] * centers[q, c]
        sums[:] = 0
        counts[:] = 0
        for i in range(n):
            for c in range(n_centers):
                scores[c] = -halves[c]
            for q in range(m):
                x = samples[i, q]
                for c in range(n_centers):
                    scores[c] += x * centers[q, c]
            best = np.argmax(scores)
            counts[best] += 1
            for q in range(m):
                sums[best, q] += samples[i, q]
        for c in range(n_centers):
            if counts[c] > 0:
                for q in range(m):
                    centers[q, c] = sums[c, q] / counts[c]


@kernel("float64(float32[:, ::1], float64[::1])")
def center_matrix(K, means):
    """Centre the upper half of a symmetric matrix, its diagonal included: K_ij - m_i - m_j + m, m_i its row means.

    They are noted in `means`. Returns the largest absolute value that is left, plus the largest |m_i - m|.
    """
    n = K.shape[0]
    for i in range(n):
        lanes = np.zeros(8, np.float64)
        whole = n // 8 * 8
        for j in range(0, whole, 8):
            for k in range(8):
                lanes[k] += K[i, j + k]
        total = 0.0
        for k in range(8):
            total += lanes[k]
        for j in range(whole, n):
            total += K[i, j]
        means[i] = total / n
    mean = means.mean()
    peak, most = np.float32(0), 0.0
    for i in range(n):
        most = max(most, abs(means[i] - mean))
        row, others = K[i, i:], means[i:]
        for j in range(row.size):
            row[j] -= means[i] + (others[j] - mean)
            peak = max(peak, abs(row[j]))
    return peak + most


@kernel("void(float32[:, ::1], int64[::1], float32[:, ::1], float32[:, ::1])", reorder=True)
def multiply_symmetric(K, firsts, W, F):
    """F[t] = K_t W[t] for symmetric matrices K_t (n, n), which begin at rows `firsts` of K.

    Matrices are larger than caches, so only their upper halves are read, four rows at a time: each value serves its
    own place and the mirrored one. SciPy's `ssymv` is as fast, but no other thread runs beside it.
    """
    n = F.shape[1]
    whole = n // 4 * 4
    for t in range(firsts.size):
        matrix, weights, out = K[firsts[t] : firsts[t] + n], W[t], F[t]
        out[:] = 0
        for i in range(0, whole, 4):
            a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
            rest, mirrored = out[i + 4 :], weights[i + 4 :]
            row_a, row_b = matrix[i, i + 4 :], matrix[i + 1, i + 4 :]
            row_c, row_d = matrix[i + 2, i + 4 :], matrix[i + 3, i + 4 :]
            sum_a, sum_b, sum_c, sum_d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for j in range(rest.size):
                rest[j] += a * row_a[j] + b * row_b[j] + c * row_c[j] + d * row_d[j]
                sum_a += row_a[j] * mirrored[j]
                sum_b += row_b[j] * mirrored[j]
                sum_c += row_c[j] * mirrored[j]
                sum_d += row_d[j] * mirrored[j]
            out[i] += sum_a
            out[i + 1] += sum_b
            out[i + 2] += sum_c
            out[i + 3] += sum_d
        for first in range(0, n, 4):  # the blocks of 4 x 4 on the diagonal
            for i in range(first, min(first + 4, n)):
                for j in range(first, min(first + 4, n)):
                    out[i] += matrix[min(i, j), max(i, j)] * weights[j]


@kernel("float64(Array(float32, 2, 'C', readonly=True), int64)")
def mean_neighbor_distance(XT, k):
    """Mean over samples of the mean Euclidean distance to their k nearest others.

    XT (m, n): dimension after dimension. The sums of squares are plain, so equal samples are exactly 0 apart.
    """
    n = XT.shape[1]
    squares = np.empty(n, np.float32)
    nearest = np.empty(k, np.float32)
    total = 0.0
    for i in range(n):
        squares[:] = 0
        for q in range(XT.shape[0]):
            x = XT[q, i]
            for j in range(n):
                difference = XT[q, j] - x
                squares[j] += difference * difference
        squares[i] = np.inf
        nearest[:] = np.inf
        for j in range(n):
            if squares[j] < nearest[k - 1]:
                place = k - 1
                while place > 0 and nearest[place - 1] > squares[j]:
                    nearest[place] = nearest[place - 1]
                    place -= 1
                nearest[place] = squares[j]
        for place in range(k):
            total += np.sqrt(np.float64(nearest[place]))
    return total / (n * k)


@kernel(f"void({_MATRIX}, {_MATRIX}, int64, boolean, float32[:, ::1], float32[::1])")
def local_squares(rows, basis, k, same, squares, widths):
    """squares[i, j] = |x_i - y_j|^2; widths[i] = mean distance from x_i to its k nearest y.

    rows (n, m); basis (m, L): dimension after dimension. Where rows are the basis (`same`), none is its own neighbour.
    The sums of squares are plain, so equal samples are exactly 0 apart, and a row has the same numbers in any block.
    """
    nearest = np.empty(k, np.float32)
    for i in range(rows.shape[0]):
        own = squares[i]
        own[:] = 0
        for q in range(rows.shape[1]):
            x = rows[i, q]
            for j in range(own.size):
                difference = basis[q, j] - x
                own[j] += difference * difference
        nearest[:] = np.inf
        for j in range(own.size):
            if own[j] < nearest[k - 1] and not (same and i == j):
                place = k - 1
                while place > 0 and nearest[place - 1] > own[j]:
                    nearest[place] = nearest[place - 1]
                    place -= 1
                nearest[place] = own[j]
        total = 0.0
        for place in range(k):
            total += np.sqrt(np.float64(nearest[place]))
        widths[i] = total / k


@kernel("void(float32[:, ::1], float32[::1], Array(float32, 1, 'C', readonly=True), float64)")
def local_values(squares, widths, others, factor):
    """squares[i, j] -> exp(-squares[i, j] / sigma^2), sigma = factor (widths[i] + others[j]) / 2, in place.

    Where both widths are 0, equal samples have the value 1 and others 0.
    """
    for i in range(squares.shape[0]):
        for j in range(squares.shape[1]):
            sigma = 0.5 * factor * (np.float64(widths[i]) + np.float64(others[j]))
            value = np.float64(squares[i, j])
            if value > 0:
                squares[i, j] = np.exp(-value / (sigma * sigma)) if sigma > 1e-30 else 0.0
            else:
                squares[i, j] = 1.0
