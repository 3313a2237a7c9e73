"""From texts as many token vectors to long vectors: fixed-dimensional encodings, and exact MaxSim for the shortlist."""

from projbank.text.encoding import FixedDimensionalEncoding
from projbank.text.maxsim import rerank

__all__ = ["FixedDimensionalEncoding", "rerank"]
