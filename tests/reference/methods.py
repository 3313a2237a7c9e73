"""Slow, literal transcriptions of the compared methods' formulas. No code of projbank."""

import numpy as np


def circulant(r):
    """The matrix with first column r whose columns are its cyclic shifts: R[i, j] = r[(i - j) mod D]."""
    n = len(r)
    return np.array([[r[(i - j) % n] for j in range(n)] for i in range(n)], float)


def circulant_objective(X, B, r, lam):
    """Yu et al. 2014, equation 12: |B - X R'|^2 + lam |R R' - I|^2."""
    R = circulant(r)
    return ((B - X @ R.T) ** 2).sum() + lam * ((R @ R.T - np.eye(len(r))) ** 2).sum()


def bilinear(x, left, right):
    """Gong et al. 2013: R1' X R2 of one vector, X its D1 x D2 matrix (zeros behind), as a vector."""
    n_left, n_right = len(left), len(right)
    matrix = np.zeros(n_left * n_right)
    matrix[: len(x)] = x
    matrix = matrix.reshape(n_left, n_right)
    out = np.zeros((left.shape[1], right.shape[1]))
    for a in range(left.shape[1]):
        for b in range(right.shape[1]):
            out[a, b] = sum(left[i, a] * matrix[i, j] * right[j, b] for i in range(n_left) for j in range(n_right))
    return out.ravel()


def spectral_modes(ranges, n_bits):
    """Weiss et al. 2008: the n_bits pairs (component, mode) with the smallest eigenvalues, all pairs enumerated."""
    pairs = [((mode / width) ** 2, c, mode) for c, width in enumerate(ranges) for mode in range(1, n_bits + 1)]
    return [(c, mode) for _, c, mode in sorted(pairs)[:n_bits]]


def spectral_value(v, low, width, mode):
    """Weiss et al. 2008: the eigenfunction sin(pi / 2 + mode pi (v - a) / (b - a)) of the uniform distribution."""
    return np.sin(np.pi / 2 + mode * np.pi * (v - low) / width)


def alpha_zero(x, n_gaussians, size):
    """Perronnin et al. 2010: per Gaussian the bit that it was visited, and the signs of its mean gradients."""
    bits = []
    for g in range(n_gaussians):
        means = x[g * size : (g + 1) * size]
        variances = x[(n_gaussians + g) * size : (n_gaussians + g + 1) * size]
        bits.append(any(value != 0 for value in [*means, *variances]))
        bits.extend(value > 0 for value in means)
    return bits


def merged(x, labels):
    """Liu and Wang 2013: sums of the merged features, divided by the root of their number."""
    out = []
    for c in range(max(labels) + 1):
        own = [x[j] for j in range(len(x)) if labels[j] == c]
        out.append(sum(own) / np.sqrt(len(own)))
    return out


def itq_step(V, R):
    """Gong and Lazebnik 2011: B = sign(V R), then R = S^ S' with the decomposition B' V = S O S^'."""
    B = np.where(V @ R > 0, 1.0, -1.0)
    S, _, S_hat_t = np.linalg.svd(B.T @ V)
    return S_hat_t.T @ S.T


def hadamard(n):
    """Sylvester's matrix: H[i, j] = (-1)^(number of common one bits of i and j)."""
    return np.array([[(-1) ** (i & j).bit_count() for j in range(n)] for i in range(n)])
