"""Texts as token vectors: a few directions that texts share, off centre as those of a network are."""

import numpy as np


def texts(sizes, width=24, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((12, width))
    tokens = [topics[rng.choice(rng.choice(12, 3), n)] + 0.4 * rng.standard_normal((n, width)) + 0.5 for n in sizes]
    return [(bag / np.linalg.norm(bag, axis=1, keepdims=True)).astype(np.float32) for bag in tokens]


def stacked(bags):
    return np.concatenate(bags), np.cumsum([0, *map(len, bags)])
