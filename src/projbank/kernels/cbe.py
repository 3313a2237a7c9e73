"""Circulant coding around the Fourier transforms: pairs of signed rows in, products with the filter's spectra out.

Two real rows travel as real and imaginary part of one complex row: the filter is real, so they never mix.
"""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel

_ROWS = "Array(float32, 2, 'C', readonly=True)"
_CHUNK = 1024


@kernel(f"void({_ROWS}, Array(float32, 1, 'C', readonly=True), int64, float32[:, :, ::1])")
def cut_pairs(X, signs, length, pieces):
    """pieces[i, b] = entries b * length ... of signs * X[2 i] and signs * X[2 i + 1], taking turns, zeros behind.

    X (n, D), signs (D,), pieces (ceil(n / 2), B, 2 * (at least length)) with B * length >= D.
    """
    n_rows, n_features = X.shape
    for i in range(pieces.shape[0]):
        for b in range(pieces.shape[1]):
            first = b * length
            count = max(0, min(length, n_features - first))
            piece = pieces[i, b]
            if 2 * i + 1 < n_rows:
                for t in range(count):
                    piece[2 * t] = X[2 * i, first + t] * signs[first + t]
                    piece[2 * t + 1] = X[2 * i + 1, first + t] * signs[first + t]
            else:
                for t in range(count):
                    piece[2 * t] = X[2 * i, first + t] * signs[first + t]
                    piece[2 * t + 1] = 0
            piece[2 * count :] = 0


@kernel("void(Array(float32, 3, 'C', readonly=True), Array(float32, 2, 'C', readonly=True), float32[:, ::1])")
def add_products(pieces, spectra, out):
    """out[i, k] = sum over b of pieces[i, b, k] * spectra[b, k]; complex numbers as two floats, (n, B, 2 K) ..."""
    real, imaginary = np.empty(_CHUNK, np.float32), np.empty(_CHUNK, np.float32)
    n_rows, n_pieces, width = pieces.shape
    for i in range(n_rows):
        for start in range(0, width // 2, _CHUNK):
            count = min(_CHUNK, width // 2 - start)
            real[:] = 0
            imaginary[:] = 0
            for b in range(n_pieces):
                piece, spectrum = pieces[i, b, 2 * start :], spectra[b, 2 * start :]
                for k in range(count):
                    x, y = piece[2 * k], piece[2 * k + 1]
                    u, v = spectrum[2 * k], spectrum[2 * k + 1]
                    real[k] += x * u - y * v
                    imaginary[k] += x * v + y * u
            target = out[i, 2 * start :]
            for k in range(count):
                target[2 * k] = real[k]
                target[2 * k + 1] = imaginary[k]


@kernel("void(Array(float32, 2, 'C', readonly=True), int64, float32[:, ::1])")
def split_pairs(pairs, first, values):
    """values[2 i, p], values[2 i + 1, p] = real and imaginary part of entry first + p of pairs[i]."""
    n_rows, n_bits = values.shape
    for i in range(pairs.shape[0]):
        pair = pairs[i, 2 * first :]
        for p in range(n_bits):
            values[2 * i, p] = pair[2 * p]
        if 2 * i + 1 < n_rows:
            for p in range(n_bits):
                values[2 * i + 1, p] = pair[2 * p + 1]
