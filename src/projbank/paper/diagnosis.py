"""Why a code is good or bad: balance of its bits, how much they repeat each other, sizes of the groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import unpack
from projbank.evaluate.results import Record
from projbank.evaluate.retrieval import SplitExperiment, code_gallery, fit_method
from projbank.threads import split_rows

HISTOGRAM = 20
NEAR_COPY = 0.9
PERCENTILES = (0, 25, 50, 75, 100)


class Diagnosis(SplitExperiment):
    """Look at the bits of a gallery that a method learnt from part of.

    A bit that is nearly always 0 tells little, and so does one that repeats another. `independent` is the number of
    independent bits that would be as little alike: (sum of eigenvalues)^2 / sum of squared eigenvalues of the bits'
    covariance. It can be no larger than the number of vectors.
    """

    name = "diagnosis"

    def measure(self, key: Record) -> Record:
        """Balance, redundancy and group sizes."""
        self._rows.load(key["seed"])
        method, _ = fit_method(key, self._rows, self._n_jobs)
        if method.distance != "hamming":
            raise ValueError(f"{key['method']} has no bits to look at.")
        codes, _ = code_gallery(method, self._rows)
        return describe_bits(unpack(codes, method.n_bits_)) | _group_sizes(method)

    def headline(self, record: Record) -> str:
        """Balance and number of independent bits."""
        return f"imbalance {record['imbalance']:.3f}, like {record['independent']:.0f} independent bits"

    def close(self) -> None:
        """Let go of the rows."""
        self._rows.forget()


def describe_bits(bits: NDArray[np.bool_]) -> Record:
    """Balance and redundancy of the bits (n, d) of n vectors."""
    n, d = bits.shape
    ones = bits.mean(axis=0)
    centred = bits - ones.astype(np.float32)
    square = centred @ centred.T if n < d else centred.T @ centred  # both have the same eigenvalues
    trace, squares = float(np.trace(square)), float(np.einsum("ij,ij->", square, square, dtype=np.float64))
    varied = centred[:, (ones > 0) & (ones < 1)]
    mean, largest = _correlations(varied / np.linalg.norm(varied, axis=0))
    return {
        "bits": d,
        "imbalance": float(np.abs(ones - 0.5).mean()),
        "constant": int(d - varied.shape[1]),
        "ones": np.histogram(ones, HISTOGRAM, (0, 1))[0].tolist(),
        "correlation": mean,
        "near_copies": float((largest > NEAR_COPY).sum() / d),
        "independent": trace**2 / squares if squares else 0.0,
    }


def _correlations(columns: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
    """Mean absolute correlation of different columns of length 1, and the largest of each with any other."""
    d = columns.shape[1]
    total, largest = 0.0, np.zeros(d, np.float32)
    for start, stop in split_rows(d, 512):
        block = np.abs(columns[:, start:stop].T @ columns)
        block[np.arange(stop - start), np.arange(start, stop)] = 0
        total += float(block.sum(dtype=np.float64))
        largest[start:stop] = block.max(axis=1)
    return total / max(1, d * (d - 1)), largest


def _group_sizes(method: Any) -> Record:
    sizes = getattr(method, "group_sizes_", None)
    return {} if sizes is None else {"group_sizes": np.percentile(sizes, PERCENTILES).tolist()}
