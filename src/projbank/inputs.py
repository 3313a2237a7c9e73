"""What an estimator accepts as vectors: kind, shape and names are checked without a pass over the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

from projbank.rows.source import ArrayRows, RowSource, as_rows, foreign_rows
from projbank.rows.sparse import checked


def checked_rows(estimator: Any, X: Any, reset: bool) -> RowSource:
    """Check kind and shape without a pass over the data; NaN and infinity are found as the rows are read."""
    if not reset:
        if not hasattr(estimator, "n_features_in_"):
            check_is_fitted(estimator)
        if (  # the checks below cost more than coding one vector
            type(X) is np.ndarray
            and X.dtype == np.float32
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == estimator.n_features_in_
            and not hasattr(estimator, "feature_names_in_")
        ):
            return ArrayRows(X)
    if sp.issparse(X):
        X = checked(X)  # before anything converts it
    rows = foreign_rows(X)
    if rows is not None:
        least = 2 if reset else 1
        if rows.shape[0] < least or rows.shape[1] < 1:
            raise ValueError(f"X must have at least {least} row(s) and 1 column. Got shape {rows.shape}.")
        validate_data(estimator, rows, reset=reset, skip_check_array=True)
        return rows
    return as_rows(
        validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
    )
