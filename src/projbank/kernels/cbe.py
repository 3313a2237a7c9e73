"""Circulant coding around the Fourier transforms: signed pieces of a row in, products with the filter's spectra out."""

from __future__ import annotations

from projbank.kernels.jit import kernel

_ROWS = "Array(float32, 2, 'A', readonly=True)"


@kernel(f"void({_ROWS}, Array(float32, 1, 'C', readonly=True), int64, float32[:, :, ::1])")
def cut_signed(X, signs, length, pieces):
    """pieces[i, b] = (signs * X[i])[b * length : (b + 1) * length], zeros behind.

    X (n, D) float32, signs (D,), pieces (n, B, at least length) with B * length >= D.
    """
    n_features = signs.size
    for i in range(X.shape[0]):
        row = X[i]
        for b in range(pieces.shape[1]):
            first = b * length
            count = max(0, min(length, n_features - first))
            piece = pieces[i, b]
            for t in range(count):
                piece[t] = row[first + t] * signs[first + t]
            piece[count:] = 0


@kernel(
    "void(Array(complex64, 3, 'C', readonly=True), Array(complex64, 2, 'C', readonly=True), complex64[:, ::1])",
    reorder=True,
)
def add_products(pieces, spectra, out):
    """out[i, k] = sum over b of pieces[i, b, k] * spectra[b, k]; complex, (n, B, K), (B, K), (n, K)."""
    n_rows, n_pieces, n_frequencies = pieces.shape
    for i in range(n_rows):
        for start in range(0, n_frequencies, 1024):
            stop = min(start + 1024, n_frequencies)
            for k in range(start, stop):
                out[i, k] = pieces[i, 0, k] * spectra[0, k]
            for b in range(1, n_pieces):
                for k in range(start, stop):
                    out[i, k] += pieces[i, b, k] * spectra[b, k]
