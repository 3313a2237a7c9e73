"""The compared methods: one registry, one interface.

Every estimator of `METHODS` has `fit`, `transform`, `distance` ("hamming", "l2" or "adc"), `code_bytes` and
`model_bytes`, and takes `random_state` and, where the length is free, `n_bits`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from projbank.models.file import CLASSES

_CLASSES = {
    "pca": "PCA",
    "rr": "RandomRotation",
    "pq": "PQ",
    "rr+pq": "RandomRotationPQ",
    "pka": "PKA",
    "sign": "Sign",
    "alpha0": "AlphaZero",
    "lsh": "LSH",
    "sph": "SpectralHashing",
    "bpbc": "BPBC",
    "cbe": "CBE",
    "cbe-rand": "RandomCBE",
    "itq": "ITQ",
    "kmeans+itq": "KMeansITQ",
    "lda+itq": "DiscriminantITQ",
    "randst+bpb": "RandomBPB",
    "bpb": "BPB",
    "kbpb-poly": "PolynomialKBPB",
    "kbpb-rbf": "RadialKBPB",
    "bpb-equal": "EqualBPB",
    "kbpb-rbf-equal": "EqualKBPB",
    "joint": "JointBank",
    "mixed": "MixedBank",
    "distances": "DistanceBank",
    "sign-select": "SignSelect",
    "srht+sign": "SRHT",
    "rabitq": "RaBitQ",
}


class _Methods(Mapping[str, Any]):
    """Name of a method to its estimator, whose module is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        cls = _CLASSES[name]
        return getattr(importlib.import_module(CLASSES[cls]), cls)

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


METHODS = _Methods()
"""Name of a method to its estimator."""


def __getattr__(name: str) -> Any:
    if name == "search":
        return importlib.import_module(f"{__name__}.nearest").search
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["METHODS", "search"]
