"""Long vectors that need no file: products of digit images' pixels, and generated ones with awkward rows."""

import numpy as np
from sklearn.datasets import load_digits


def digit_products(n=None):
    """Scikit-learn's digits as 2,080 roots of products of pixels, unit length, and their labels."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))[:n]
    first, second = np.triu_indices(images.shape[1])
    products = np.sqrt(images[order][:, first] * images[order][:, second]).astype(np.float32)
    return np.ascontiguousarray(products / np.linalg.norm(products, axis=1, keepdims=True)), labels[order]


def vectors(n=60, n_features=90, seed=0, rank=12):
    """Vectors near a space of few dimensions, off centre, with a constant dimension, a zero one and equal rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n_features))
    X += 0.3 * rng.standard_normal((n, n_features)) + rng.standard_normal(n_features)
    X[-1] = X[0]
    if n_features > 3:
        X[:, 1], X[:, 3] = 5.0, 0.0
    return X.astype(np.float32)
