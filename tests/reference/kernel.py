"""Slow, literal transcriptions of the paper's section on KBPB (with 1/n for the printed 1/N). No code of projbank."""

import numpy as np


def rbf(x, y, sigma):
    return np.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / sigma**2)


def poly(x, y, degree, gamma=1.0):
    return (gamma * sum(a * b for a, b in zip(x, y, strict=True)) + 1) ** degree


def linear(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def adaptive_sigma(X, k, factor):
    """Factor times the mean over samples of the mean distance to their k nearest others."""
    means = []
    for i in range(len(X)):
        distances = sorted(float(np.sqrt(((X[i] - X[j]) ** 2).sum())) for j in range(len(X)) if j != i)
        means.append(np.mean(distances[:k]))
    return factor * float(np.mean(means))


def gram(X, kernel):
    return np.array([[kernel(x, y) for y in X] for x in X])


def mu(K):
    """mu_i: the mean over the n basis samples of k(x_i, x_j)."""
    return np.array([K[i].sum() / len(K) for i in range(len(K))])


def prediction(a, basis, x, kernel):
    """g(x) = sum_i a_i k(x_i, x) - sum_i a_i mu_i."""
    means = mu(gram(basis, kernel))
    return sum(a[i] * (kernel(basis[i], x) - means[i]) for i in range(len(a)))


def loss(a, K, labels, lam):
    """1/2 sum_ij a_i a_j k(x_i, x_j) + lam sum_ij max(0, 1 - l_ij g_i g_j)."""
    n, means = len(K), mu(K)
    g = [sum(a[i] * (K[i, j] - means[i]) for i in range(n)) for j in range(n)]
    value = 0.0
    for i in range(n):
        for j in range(n):
            value += 0.5 * a[i] * a[j] * K[i, j] + lam * max(0.0, 1 - labels[i, j] * g[i] * g[j])
    return value


def gradient(a, K, labels, lam):
    """K a - lam * sum of l_ij ((k_i - mu)(k_j - mu)' + its transpose) a over the pairs whose hinge is above 0."""
    n, means = len(K), mu(K)
    shifted = [K[:, i] - means for i in range(n)]
    total = K @ a
    for i in range(n):
        for j in range(n):
            if 1 - labels[i, j] * (a @ shifted[i]) * (a @ shifted[j]) > 0:
                outer = np.outer(shifted[i], shifted[j]) + np.outer(shifted[j], shifted[i])
                total = total - lam * labels[i, j] * outer @ a
    return total
