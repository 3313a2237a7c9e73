"""Figures of codes alone: bits that say nothing, bits that say the same, and codes that several vectors share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projbank.bits import clear_padding
from projbank.rows.source import row_blocks
from projbank.threads import split_rows

UNBALANCED = 0.1
"""A bit is unbalanced where it is 1, or 0, in fewer than this share of the codes, though not dead."""
PAIRED = 2_000
"""Codes at most whose pairs are compared for the effective number of bits."""
_KEYS = 2
_BLOCK_BYTES = 64 << 20


@dataclass(frozen=True)
class BitFigures:
    """What the bits of `n_codes` codes are worth."""

    n_codes: int
    n_bits: int
    dead: int
    """Bits that are the same in all codes."""
    duplicate: int
    """Bits that equal an earlier bit, or its opposite, in all codes; dead ones are not counted."""
    unbalanced: int
    """Bits that are 1 in less than 10 % or more than 90 % of the codes; dead ones are not counted."""
    effective: float
    """Independent fair coins whose distances would spread as those of the codes: mean (1 - mean) / variance of the
    distance per bit (Daugman, 2003), over all pairs of at most 2,000 codes."""
    shared: int
    """Codes that another vector has, too."""


def bit_figures(codes: NDArray[np.uint8], n_bits: int, seed: int = 0) -> BitFigures:
    """Figures of packed codes, (n, ceil(n_bits / 8)); stray bits past `n_bits` do not count."""
    n = len(codes)
    ones, keys = _columns(codes, n_bits, seed)
    live = (ones > 0) & (ones < n)
    shares = ones / max(n, 1)
    _, first = np.unique(keys[live], axis=0, return_index=True)
    unbalanced = live & ((shares < UNBALANCED) | (shares > 1 - UNBALANCED))
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:PAIRED])
    return BitFigures(
        n_codes=n,
        n_bits=n_bits,
        dead=int(np.count_nonzero(~live)),
        duplicate=int(live.sum()) - len(first),
        unbalanced=int(unbalanced.sum()),
        effective=effective_bits(clear_padding(np.asarray(codes[chosen]), n_bits), n_bits),
        shared=_shared(codes, n_bits),
    )


def ones_share(codes: NDArray[np.uint8], n_bits: int) -> NDArray[np.float64]:
    """Share of the codes in which each bit is 1, (n_bits,)."""
    return _columns(codes, n_bits, 0)[0] / max(len(codes), 1)


def effective_bits(codes: NDArray[np.uint8], n_bits: int) -> float:
    """Return mean (1 - mean) / variance of the distance per bit over all pairs of codes; 0 where all are alike."""
    if len(codes) < 2:
        return 0.0
    bits = np.unpackbits(codes, axis=1, count=n_bits, bitorder="little").astype(np.float32)
    ones = bits.sum(axis=1)
    distances = (ones[:, None] + ones - 2 * (bits @ bits.T))[np.triu_indices(len(bits), 1)] / n_bits
    mean, variance = distances.mean(dtype=np.float64), distances.var(dtype=np.float64)
    return float(mean * (1 - mean) / variance) if variance > 0 else 0.0


def _columns(codes: NDArray[np.uint8], n_bits: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Ones of each bit, and keys (n_bits, 2) that agree where two bits agree, or are opposite, in all codes.

    A key is the sum of random numbers of the codes in which the bit is 1, or is 0: the smaller of the two.
    """
    rng = np.random.default_rng(seed)
    ones, sums = np.zeros(n_bits, np.int64), np.zeros((_KEYS, n_bits), np.uint64)
    total = np.zeros((_KEYS, 1), np.uint64)
    for start, stop in row_blocks(len(codes), 2 * n_bits, _BLOCK_BYTES):  # 8 bytes for each bit
        bits = np.unpackbits(codes[start:stop], axis=1, count=n_bits, bitorder="little").astype(np.float64)
        draws = rng.integers(1 << 32, size=(_KEYS, stop - start)).astype(np.float64)  # sums stay exact below 2**53
        ones += bits.sum(axis=0).astype(np.int64)
        sums += (draws @ bits).astype(np.uint64)
        total += draws.sum(axis=1, keepdims=True).astype(np.uint64)
    opposite = total - sums
    swap = opposite[0] < sums[0]
    return ones, np.where(swap, opposite, sums).T


def _shared(codes: NDArray[np.uint8], n_bits: int) -> int:
    """Count the codes that are not alone."""
    whole = np.concatenate([clear_padding(np.asarray(codes[a:b]), n_bits) for a, b in split_rows(len(codes), 1 << 16)])
    _, counts = np.unique(np.ascontiguousarray(whole).view(f"V{whole.shape[1]}"), return_counts=True)
    return int(counts[counts > 1].sum())
