"""The compared methods: one file each, one registry, one interface.

Every estimator of `METHODS` has `fit`, `transform`, `distance` ("hamming", "l2" or "adc"), `code_bytes` and
`model_bytes`, and takes `random_state` and, where the length is free, `n_bits`.
"""

from __future__ import annotations

from typing import Any

from projbank.methods.alpha0 import AlphaZero
from projbank.methods.bpb import BPB
from projbank.methods.bpbc import BPBC
from projbank.methods.cbe import CBE
from projbank.methods.cbe_rand import RandomCBE
from projbank.methods.itq import ITQ
from projbank.methods.joint import JointBank
from projbank.methods.kbpb import PolynomialKBPB, RadialKBPB
from projbank.methods.kmeans_itq import KMeansITQ
from projbank.methods.lsh import LSH
from projbank.methods.pca import PCA
from projbank.methods.pka import PKA
from projbank.methods.pq import PQ
from projbank.methods.rabitq import RaBitQ
from projbank.methods.randst_bpb import RandomBPB
from projbank.methods.rr import RandomRotation
from projbank.methods.rr_pq import RandomRotationPQ
from projbank.methods.search import search
from projbank.methods.sign import Sign
from projbank.methods.sign_select import SignSelect
from projbank.methods.sph import SpectralHashing
from projbank.methods.srht import SRHT

METHODS: dict[str, Any] = {
    "pca": PCA,
    "rr": RandomRotation,
    "pq": PQ,
    "rr+pq": RandomRotationPQ,
    "pka": PKA,
    "sign": Sign,
    "alpha0": AlphaZero,
    "lsh": LSH,
    "sph": SpectralHashing,
    "bpbc": BPBC,
    "cbe": CBE,
    "cbe-rand": RandomCBE,
    "itq": ITQ,
    "kmeans+itq": KMeansITQ,
    "randst+bpb": RandomBPB,
    "bpb": BPB,
    "kbpb-poly": PolynomialKBPB,
    "kbpb-rbf": RadialKBPB,
    "joint": JointBank,
    "sign-select": SignSelect,
    "srht+sign": SRHT,
    "rabitq": RaBitQ,
}
"""Name of a method to its estimator."""

__all__ = ["METHODS", "search"]
