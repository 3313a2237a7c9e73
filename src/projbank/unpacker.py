"""Codes for estimators that take numbers: packed bytes as if they were numbers would mean nothing to them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from projbank.bits import check_codes, unpack
from projbank.params import check_int


class BitUnpacker(TransformerMixin, BaseEstimator):
    """Turn packed codes into numbers: -1 where a bit is 0, 1 where it is 1.

    Parameters
    ----------
    n_bits : int or None
        Bits of a code; None: 8 for every byte, padding included.

    Attributes
    ----------
    n_features_in_ : int
        Bytes of a code.
    n_bits_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import LinearSVC
    >>> from projbank import ProjectionBank
    >>> from projbank.unpacker import BitUnpacker
    >>> X, y = np.random.default_rng(0).standard_normal((60, 64)), np.arange(60) % 2
    >>> bank = ProjectionBank(20, solver="random")
    >>> make_pipeline(bank, BitUnpacker(20), LinearSVC()).fit(X, y).predict(X[:2]).shape
    (2,)
    """

    def __init__(self, n_bits: int | None = None) -> None:
        self.n_bits = n_bits

    def fit(self, codes: Any, y: Any = None) -> Self:
        """Note the length of the codes."""
        array = check_codes(codes)
        if self.n_bits is not None:
            check_int(self, "n_bits", self.n_bits, 1)
            check_codes(array, self.n_bits)
        self.n_features_in_ = array.shape[1]
        self.n_bits_ = 8 * array.shape[1] if self.n_bits is None else int(self.n_bits)
        return self

    def transform(self, codes: Any) -> NDArray[np.float32]:
        """Bits as numbers, (n, n_bits) float32 of -1 and 1."""
        check_is_fitted(self)
        return np.where(unpack(codes, self.n_bits_), np.float32(1), np.float32(-1))
