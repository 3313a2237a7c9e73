"""What every estimator that codes rows shares: how its input is checked, and what banks share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from projbank.bits import code_bytes
from projbank.learn.grouping import LEARNT_GROUPINGS, check_grouping, group_dimensions
from projbank.learn.joint import hold_back
from projbank.learn.learnt_groups import FEWEST, learn_groups
from projbank.learn.paper import INITS
from projbank.learn.target import SimilarityTarget
from projbank.models.file import ModelFile
from projbank.params import check_choice, check_int, check_positive
from projbank.progress import say
from projbank.rows.source import is_hdf5
from projbank.threads import thread_count


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


class BankCoder(RowCoder):
    """Base of the linear and the kernel bank: parameters that both have, groups, and coding by `_bank`."""

    n_bits_: int
    _bank: Any

    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Packed codes of X.

        Parameters
        ----------
        X : (n, D) array, memory map, scipy.sparse matrix or h5py data set

        Returns
        -------
        codes : (n, ceil(n_bits / 8)) uint8
            Bit p stands in byte p // 8 at position p % 8, as in FAISS; padding bits are 0.
        """
        X = self._check_rows(X)
        codes = np.empty((X.shape[0], code_bytes(self.n_bits_)), np.uint8)
        self._code(X, codes)
        return codes

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Margins of X, (n, n_bits) float32; bit p of the code is 1 iff margin p is above 0."""
        X = self._check_rows(X)
        margins = np.empty((X.shape[0], self.n_bits_), np.float32)
        self._code(X, margins)
        return margins

    def query_values(self, X: Any) -> NDArray[np.float32]:
        """Queries for an asymmetric search, (n, n_bits) float32: ``index.search(bank.query_values(queries), k=100)``.

        Those of the joint solver are tanh of the margins, which it takes for bits as it learns: with the margins, few
        large ones would drown the rest. Other solvers' are the margins.
        """
        margins = self.decision_function(X)
        return np.tanh(margins, out=margins) if self.solver == "joint" else margins

    def write(self, X: Any, out: NDArray[Any]) -> None:
        """Write the codes (`out` of uint8) or margins (float32) of X into an array, e.g. a memory-mapped file."""
        self._code(self._check_rows(X), out)

    def _code(self, X: Any, out: NDArray[Any]) -> None:
        self._bank.write(X, out, n_threads=thread_count(self.n_jobs), verbose=self.verbose)

    def _check_shared_parameters(self, *, learnt: bool) -> None:
        if not (isinstance(self.n_bits, str) and self.n_bits == "auto"):
            check_int(self, "n_bits", self.n_bits, 1)
        check_grouping(self, learnt)
        check_int(self, "n_neighbors", self.n_neighbors, 1)
        check_positive(self, "lam", self.lam)
        check_int(self, "max_iter", self.max_iter, 1)
        check_positive(self, "tol", self.tol, zero=True)
        check_choice(self, "init", self.init, INITS)
        check_int(self, "kmeans_iter", self.kmeans_iter, 1)

    def _resolve_bits(self, n_features: int) -> int:
        return auto_bits(n_features) if isinstance(self.n_bits, str) else int(self.n_bits)

    def _lowered(self, name: str, limit: int, n_samples: int) -> int:
        """Return the parameter, or `limit` with a warning where it is above."""
        value = int(getattr(self, name))
        if value <= limit:
            return value
        message = f"{name}={value} is lowered to {limit}: there are {n_samples} training vectors."
        warnings.warn(message, UserWarning, stacklevel=3)
        return limit

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31))

    def _group(
        self,
        X: Any,
        grouping: str | ArrayLike,
        n_bits: int,
        n_assign: int,
        rng: np.random.Generator,
        n_threads: int,
    ) -> NDArray[np.int32]:
        labels = group_dimensions(
            grouping,
            X,
            n_bits,
            rng,
            n_assign=n_assign,
            kmeans_iter=self.kmeans_iter,
            n_threads=n_threads,
            verbose=self.verbose,
        )
        self._tell_groups(labels, n_bits)
        return labels

    def _joint_groups(
        self,
        X: Any,
        grouping: str | ArrayLike,
        target: SimilarityTarget,
        statistics: tuple[NDArray[np.float64], NDArray[np.float64]],
        n_bits: int,
        n_assign: int,
        seed: int,
        n_threads: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32] | None]:
        """Groups for the joint learner, and signs to start from where the groups are learnt."""
        if isinstance(grouping, str) and grouping in LEARNT_GROUPINGS:
            _, free = hold_back(X.shape[0], seed)
            if len(free) >= FEWEST:
                say(f"learning groups from {len(free)} vectors", self.verbose)
                labels, signs = learn_groups(
                    X, free, target, *statistics, n_bits=n_bits, n_assign=n_assign, seed=seed, n_threads=n_threads
                )
                if grouping == "learnt":
                    labels, signs = labels[0], signs[0]
                self._tell_groups(labels, n_bits)
                return labels, signs
            grouping = grouping.replace("learnt", "random")
        return self._group(X, grouping, n_bits, n_assign, np.random.default_rng(seed), n_threads), None

    def _tell_groups(self, labels: NDArray[np.int32], n_bits: int) -> None:
        sizes = np.bincount(labels.ravel())
        shared = "" if labels.ndim == 1 else f", every dimension in {len(labels)} of them"
        message = f"{n_bits} groups of {sizes.min()} to {sizes.max()} dimensions (median {np.median(sizes):g}){shared}"
        say(message, self.verbose)

    @property
    def _n_features_out(self) -> int:
        return code_bytes(self.n_bits_)
