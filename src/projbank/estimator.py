"""What every estimator that codes rows shares: how its input is checked, and how long a code is by default."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from projbank.modelfile import ModelFile
from projbank.vectors import is_hdf5


def auto_bits(n_features: int) -> int:
    """Length of a code for ``n_bits="auto"``: about D / 16, a multiple of 64 where D allows."""
    bits = max(1, n_features // 16)
    return bits if bits < 64 else (bits + 32) // 64 * 64


class RowCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ModelFile, BaseEstimator):
    """Base of estimators that turn rows (arrays, memory maps, scipy.sparse, HDF5) into codes, block by block."""

    n_features_in_: int

    def _check_rows(self, X: Any, reset: bool = False) -> Any:
        """Check kind and shape without a pass over the data; NaN and infinity are found as the rows are read."""
        if not reset:
            if not hasattr(self, "n_features_in_"):
                check_is_fitted(self)
            if (  # the checks below cost more than coding one vector
                type(X) is np.ndarray
                and X.dtype == np.float32
                and X.ndim == 2
                and X.shape[0] > 0
                and X.shape[1] == self.n_features_in_
                and not hasattr(self, "feature_names_in_")
            ):
                return X
        if is_hdf5(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags
