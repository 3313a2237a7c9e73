"""Search in packed codes: exact Hamming, real-valued queries against stored bits, and a second stage on a shortlist."""

from projbank.search.file import IndexFileError, verify_index
from projbank.search.index import HammingIndex

__all__ = ["HammingIndex", "IndexFileError", "verify_index"]
