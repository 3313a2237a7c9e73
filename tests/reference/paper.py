"""Slow, literal transcriptions of the paper's formulas (equation numbers as in the source). No code of projbank."""

import numpy as np


def pseudo_labels(X, k):
    """Equation 2: +1 if either is among the other's k nearest, and on the diagonal; -1 otherwise."""
    n = len(X)
    near = np.zeros((n, n), bool)
    for i in range(n):
        distances = [(float(((X[i].astype(float) - X[j].astype(float)) ** 2).sum()), j) for j in range(n) if j != i]
        for _, j in sorted(distances)[:k]:
            near[i, j] = True
    labels = np.where(near | near.T, 1.0, -1.0)
    np.fill_diagonal(labels, 1.0)
    return labels


def hinge_sum(f, labels):
    """Sum over all ordered pairs of max(0, 1 - l_ij f_i f_j), its gradient in f, and how many hinges are exactly 0."""
    n = len(f)
    f = np.asarray(f, float)
    total, slope, kinks = 0.0, np.zeros(n), 0
    for i in range(n):
        for j in range(n):
            hinge = 1 - labels[i, j] * f[i] * f[j]
            kinks += hinge == 0
            if hinge > 0:
                total += hinge
                slope[i] -= labels[i, j] * f[j]
                slope[j] -= labels[i, j] * f[i]
    return total, slope, kinks


def loss(w, X, labels, lam):
    """Equation 5 with the bias inside: rows of X are [x, -1], w is [w, b]."""
    value = 0.5 * float(w @ w)
    for i in range(len(X)):
        for j in range(len(X)):
            value += lam * max(0.0, 1 - labels[i, j] * (w @ X[i]) * (w @ X[j]))
    return value


def gradient(w, X, labels, lam):
    """Equations 7 and 8: w + lam * sum of -l_ij (x_i x_j' + x_j x_i') w over the pairs whose hinge is above 0."""
    total = w.astype(float).copy()
    for i in range(len(X)):
        for j in range(len(X)):
            if 1 - labels[i, j] * (w @ X[i]) * (w @ X[j]) > 0:
                total -= lam * labels[i, j] * (np.outer(X[i], X[j]) + np.outer(X[j], X[i])) @ w
    return total


def best_equal_weights(X, labels, lam, scales):
    """Least loss of a group with equal weights and the bias that centres the margins, over a list of scales."""
    direction = X.sum(axis=1) - X.sum(axis=1).mean()
    spread = np.sqrt(np.mean(direction**2)) or 1.0
    losses = []
    for scale in scales:
        f = scale * direction / spread
        w = np.full(X.shape[1], scale / spread)
        b = w @ X.mean(axis=0)
        hinges = np.maximum(0, 1 - labels * np.outer(f, f)).sum()
        losses.append(0.5 * (w @ w + b * b) + lam * hinges)
    return min(losses)
