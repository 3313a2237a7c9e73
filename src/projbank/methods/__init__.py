"""The compared methods: one file each, one registry, one interface.

Every estimator of `METHODS` has `fit`, `transform`, `distance` ("hamming", "l2" or "adc"), `code_bytes` and
`model_bytes`, and takes `random_state` and, where the length is free, `n_bits`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

_PLACES = {
    "pca": "pca:PCA",
    "rr": "rr:RandomRotation",
    "pq": "pq:PQ",
    "rr+pq": "rr_pq:RandomRotationPQ",
    "pka": "pka:PKA",
    "sign": "sign:Sign",
    "alpha0": "alpha0:AlphaZero",
    "lsh": "lsh:LSH",
    "sph": "sph:SpectralHashing",
    "bpbc": "bpbc:BPBC",
    "cbe": "cbe:CBE",
    "cbe-rand": "cbe_rand:RandomCBE",
    "itq": "itq:ITQ",
    "kmeans+itq": "kmeans_itq:KMeansITQ",
    "randst+bpb": "banks:RandomBPB",
    "bpb": "banks:BPB",
    "kbpb-poly": "banks:PolynomialKBPB",
    "kbpb-rbf": "banks:RadialKBPB",
    "bpb-equal": "banks:EqualBPB",
    "kbpb-rbf-equal": "banks:EqualKBPB",
    "joint": "banks:JointBank",
    "mixed": "banks:MixedBank",
    "sign-select": "sign_select:SignSelect",
    "srht+sign": "srht:SRHT",
    "rabitq": "rabitq:RaBitQ",
}
"""Name of a method to its module here and its class."""


class _Methods(Mapping[str, Any]):
    """Name of a method to its estimator, whose module is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        module, cls = _PLACES[name].split(":")
        return getattr(importlib.import_module(f"{__name__}.{module}"), cls)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


METHODS = _Methods()
"""Name of a method to its estimator."""


def __getattr__(name: str) -> Any:
    if name == "search":
        return importlib.import_module(f"{__name__}.nearest").search
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["METHODS", "search"]
