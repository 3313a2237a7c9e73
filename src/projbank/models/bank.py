"""Coding with a bank: any kind of rows to packed bits or margins, block by block, on several threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.kernels.encode import code_rows, margin_rows
from projbank.progress import progress
from projbank.rows.source import BLOCK_BYTES, check_finite, read_rows, release_pages, row_blocks
from projbank.threads import run_all

_READ_BYTES = 128 << 20
"""Bytes of a mapped file that all threads together look at before its memory is let go."""
_SMALL = 1 << 24
"""Numbers below which rows are coded at once: starting threads would cost more than it wins."""


@dataclass(frozen=True)
class Bank:
    """A linear bank as the kernels want it: labels (D,) uint32, weights (D,) float32, biases (n_bits,) float32.

    Where a dimension serves r groups, labels and weights have r numbers for each, dimension after dimension, (r D,).
    """

    labels: NDArray[np.uint32]
    weights: NDArray[np.float32]
    biases: NDArray[np.float32]

    def encode(self, X: Any, *, n_threads: int = 1, verbose: int = 0) -> NDArray[np.uint8]:
        """Packed codes of X (n, D), shape (n, ceil(n_bits / 8))."""
        codes = np.empty((X.shape[0], code_bytes(len(self.biases))), np.uint8)
        self.write(X, codes, n_threads=n_threads, verbose=verbose)
        return codes

    def margins(self, X: Any, *, n_threads: int = 1, verbose: int = 0) -> NDArray[np.float32]:
        """Margins of X (n, D), shape (n, n_bits)."""
        margins = np.empty((X.shape[0], len(self.biases)), np.float32)
        self.write(X, margins, n_threads=n_threads, verbose=verbose)
        return margins

    def write(self, X: Any, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of X into an array, which may be a memory map."""
        kernel = code_rows if out.dtype == np.uint8 else margin_rows

        def code(start: int, stop: int) -> int:
            rows = read_rows(X, start, stop)
            if not kernel(rows, self.labels, self.weights, self.biases, out[start:stop]):
                check_finite(rows, start)  # a sum may also overflow where all values are finite: those bits stand
            release_pages(rows)
            return stop - start

        n_rows, n_features = X.shape
        if n_rows * n_features <= _SMALL:
            code(0, n_rows)
            return
        share = 4 * n_rows * n_features // (2 * n_threads)  # two blocks for each thread, so that none waits long
        as_it_is = isinstance(X, np.ndarray) and X.dtype == np.float32  # no copy is made of a block
        budget = min(share, _READ_BYTES // n_threads if as_it_is else BLOCK_BYTES)
        with progress("coding", n_rows, verbose) as advance:
            for done in run_all(code, row_blocks(n_rows, n_features, budget), n_threads):
                advance(done)
