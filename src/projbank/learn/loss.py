"""The loss of the learners of whole codes: similarities of relaxed codes should follow a target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.learn.target import LARGE, center_pairs, symmetric_product
from projbank.threads import run_each, split_rows

NOISE = 0.5
"""Deviation of the noise on relaxed bits, in those of their margins."""
_FULL_NOISE_BITS = 256
"""Bits from which noise is added in full."""
_BATCH = (256, 512)
"""Vectors of a mini-batch, least and most."""
_MARGINS = 1 << 20
"""Margins of a mini-batch, about, between these."""

Floats = NDArray[np.float32]


def code_loss(F: Floats, target: Floats, n_threads: int = 1, *, noise: Floats | None = None) -> tuple[float, Floats]:
    """1 - corr(S, target) + mean squared mean of the relaxed bits, and its gradient in the margins F.

    F (n, d) margins; target (n, n) symmetric with zero diagonal, mean 0 and deviation 1 off the diagonal; noise (n, d)
    is added to the margins in units of their deviations. The deviations, which set the temperature of tanh, are taken
    as constants; a bit whose margins are all equal has no gradient.
    """
    n, d = F.shape
    H, sharpness, balance = np.empty_like(F), np.empty(d, np.float32), np.empty(d)
    workers = n_threads if F.size * n > LARGE else 1
    blocks = split_rows(d, max(64, -(-d // 8)))

    def relax(first: int, last: int) -> None:
        part = slice(first, last)
        spreads = F[:, part].std(axis=0)
        sharpness[part] = np.divide(1, spreads, out=np.zeros_like(spreads), where=spreads > np.finfo(np.float32).tiny)
        relaxed = F[:, part] * sharpness[part]
        if noise is not None:
            relaxed += noise[:, part]
        H[:, part] = np.tanh(relaxed, out=relaxed)
        balance[part] = relaxed.mean(axis=0)

    run_each(relax, blocks, workers)
    S, spread = center_pairs(symmetric_product(H, n_threads) / np.float32(d))
    spread = max(spread, 1e-12)
    n_pairs = n * (n - 1)
    correlation = np.einsum("ij,ij->", S, target, dtype=np.float64) / (n_pairs * spread)
    pull = (S * np.float32(correlation / spread) - target) * np.float32(2 / (d * n_pairs * spread))
    pull_to_balance = (balance * (2 / (n * d))).astype(np.float32)
    slopes = np.empty_like(F)

    def chain(rows: slice, columns: slice) -> None:
        part, relaxed = slopes[rows, columns], H[rows, columns]
        np.matmul(pull[rows], H[:, columns], out=part)
        part += pull_to_balance[columns]
        steepness = relaxed * relaxed
        np.subtract(1, steepness, out=steepness)
        steepness *= sharpness[columns]
        part *= steepness

    whole = slice(None)
    if d > n:  # BLAS is at its best where the longer side is cut
        parts = [(whole, slice(*columns)) for columns in blocks]
    else:
        parts = [(slice(*rows), whole) for rows in split_rows(n, 128)]
    run_each(chain, parts, workers)
    return float(1 - correlation + np.mean(balance**2)), slopes


def batch_size(n_bits: int) -> int:
    """Vectors of a mini-batch: 512, and fewer where bits are many, which cost more and tell each pair better."""
    least, most = _BATCH
    return max(least, min(most, _MARGINS // n_bits))


def noise_level(n_bits: int, noise: float = NOISE) -> np.float32:
    """Deviation of the noise on relaxed bits: less for short codes, where no other bits make up for it."""
    return np.float32(noise * min(1.0, np.sqrt(n_bits / _FULL_NOISE_BITS)))
