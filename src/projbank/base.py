"""The one base of everything that turns rows into codes or short vectors: banks and compared methods alike."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from projbank.bits import code_bytes, pack
from projbank.learn.renewal import Kept, keep_comparable, start_model
from projbank.learn.run import Place, Run
from projbank.models.file import ModelFile
from projbank.models.model import Model
from projbank.models.reference import Reference, left_over, looked_at
from projbank.params import Check, auto, check_choice, check_int, check_labels, reject, whole
from projbank.progress import say
from projbank.rows.source import ArrayRows, RowSource, as_rows, foreign_rows
from projbank.rows.sparse import checked
from projbank.rows.spool import SpooledRows
from projbank.threads import blas_threads, thread_count

INITS = ("leading", "equal", "random")
"""How the weights of the paper's learners start."""


def auto_bits(n_features: int) -> int:
    """Length of a code for ``n_bits="auto"``: about D / 16, a multiple of 64 where D allows."""
    bits = max(1, n_features // 16)
    return bits if bits < 64 else (bits + 32) // 64 * 64


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


def _has_margins(coder: RowCoder) -> bool:
    return coder.distance == "hamming"


class RowCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ModelFile, BaseEstimator, ABC):
    """Turns rows into codes, block by block. A subclass learns in `_learn` and codes in `_write`.

    Rows are arrays, memory maps, scipy.sparse matrices, HDF5 data sets: anything that `projbank.rows` reads. Parameters
    are the fields of a dataclass; `fit` checks them.
    """

    distance: ClassVar[str] = "hamming"
    """How codes are compared: "hamming" (packed bits), "l2" (real numbers) or "adc" (real queries, stored codes)."""
    free_length: ClassVar[bool] = True
    """Whether `n_bits` sets the length; for the others it follows from the data."""
    _checks: ClassVar[Mapping[str, Check]] = {}
    """What values parameters may have."""

    n_features_in_: int
    n_bits_: int
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    verbose: int

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn from X.

        Parameters
        ----------
        X : (n, D), anything that `projbank.rows` reads
            Arrays, memory maps, scipy.sparse, h5py, zarr and Dask arrays, columns of vectors of pandas, polars and
            pyarrow, torch tensors, AnnData (its X). Read in blocks.
        y : ignored

        Returns
        -------
        self
        """
        return self._fit(X)

    def transform(self, X: Any) -> NDArray[Any]:
        """Codes of X.

        Parameters
        ----------
        X : (n, D), as for `fit`

        Returns
        -------
        codes : (n, ceil(n_bits / 8)) uint8, or (n, n_bits) float32 where the distance is "l2"
            A Dask array for a Dask array, computed when it is asked for.
            Bit p stands in byte p // 8 at position p % 8, as in FAISS; padding bits are 0.
        """
        dtype = np.float32 if self.distance == "l2" else np.uint8
        return self._coded(self._check_rows(X), self._n_features_out, dtype, "transform")

    @available_if(_has_margins)
    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Margins of X, (n, n_bits) float32; bit p of the code is 1 iff margin p is above 0."""
        return self._coded(self._check_rows(X), self.n_bits_, np.float32, "decision_function")

    def write(self, X: Any, out: NDArray[Any]) -> None:
        """Write the codes (`out` of uint8) or margins (float32) of X into an array, e.g. a memory-mapped file."""
        rows = self._check_rows(X)
        if not isinstance(out, np.ndarray) or not out.flags.writeable:
            raise TypeError(f"The 'out' array must be a NumPy array that can be written. Got {type(out).__name__}.")
        kinds = {"hamming": "uint8 or float32", "l2": "float32", "adc": "uint8"}[self.distance]
        width = self.n_bits_ if out.dtype == np.float32 and self.distance != "l2" else self._n_features_out
        fits = str(out.dtype) in kinds.split() and out.shape == (rows.shape[0], width)
        if not fits or not out.flags.c_contiguous:
            raise ValueError(
                f"The 'out' array must be {kinds} of shape ({rows.shape[0]}, {width}), in C order. "
                f"Got {out.dtype} of shape {out.shape}, strides {out.strides}."
            )
        self._write(rows, out)

    @property
    def code_bytes(self) -> int:
        """Bytes of one code."""
        check_is_fitted(self)
        return self._n_features_out * (4 if self.distance == "l2" else 1)

    @property
    @abstractmethod
    def model_bytes(self) -> int:
        """Bytes of what coding needs."""

    def _fit(self, X: Any, **more: Any) -> Self:
        """Check parameters and rows, and learn; `more` is handed on to `_learn`."""
        self._check_parameters()
        rows = self._check_rows(X, reset=True)
        n_bits = self._resolve_bits(rows.shape[1])
        seed = self.seed()
        with blas_threads(1):  # work is shared out in blocks: same bits for any number of threads
            self._learn(rows, n_bits, seed, **more)
        return self

    def _check_parameters(self) -> None:
        """Raise for parameters out of range."""
        if self.free_length:
            auto(whole(1))(self, "n_bits", self.n_bits)
        for name, check in self._checks.items():
            check(self, name, getattr(self, name))
        thread_count(self.n_jobs)

    @abstractmethod
    def _learn(self, rows: RowSource, n_bits: int, seed: int) -> None:
        """Learn from rows, whose values are not checked yet, and set `n_bits_`."""

    @abstractmethod
    def _write(self, rows: RowSource, out: NDArray[Any]) -> None:
        """Write codes or margins of rows; raises for the first NaN or infinity."""

    def _coded(self, rows: RowSource, width: int, dtype: type, method: str) -> NDArray[Any]:
        if rows.is_lazy:
            one = copy.copy(self).set_params(n_jobs=1, verbose=0)  # what computes the array has workers of its own
            return rows.lazily(partial(_call, one, method), width, dtype, f"{method}-{self.identity()}")
        out: NDArray[Any] = np.empty((rows.shape[0], width), dtype)
        self._write(rows, out)
        return out

    def seed(self) -> int:
        """Return the seed that `random_state` stands for."""
        return int(check_random_state(self.random_state).randint(2**31))

    def _resolve_bits(self, n_features: int) -> int:
        if not self.free_length:
            return n_features
        return auto_bits(n_features) if isinstance(self.n_bits, str) else int(self.n_bits)

    def _check_rows(self, X: Any, reset: bool = False) -> RowSource:
        return checked_rows(self, X, reset)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return code_bytes(self.n_bits_) if self.distance == "hamming" else self.n_bits_


class ModelCoder(RowCoder):
    """An estimator that picks a learner, whose model does the coding.

    A subclass says by `_place` where learner and model stand, and has the parameters of its learners.
    """

    model_: Model
    comparable_: tuple[str, ...]
    """Identities of earlier banks whose codes may be compared with those of this one (`fit` with `keep_codes`)."""
    kept_: Kept | None
    reference_: Reference
    """What codes of vectors that the bank was not learnt from are like."""
    grouping: str | ArrayLike
    n_assign: int | str

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        queries: Any = None,
        *,
        start: ModelCoder | None = None,
        keep_codes: bool = False,
        set_aside: int = 0,
    ) -> Self:
        """Learn from X, anew or on from a bank that exists.

        Parameters
        ----------
        X : (n, D) array, memory map, scipy.sparse matrix or h5py data set, read in blocks
        y : (n,) array of int, bool or str, optional
            Labels of the rows, -1 where unknown: the mixed solver learns from them; others leave them alone.
        queries : (m, D), as X, optional
            Vectors that will be searched with, where they are of another kind than X: codes of a bank for distances
            then tell inner products with them; others leave them alone.
        start : fitted estimator of the same solver, optional
            Learning goes on from its weights and groups, in a fraction of the time; `n_bits` is that of `start`.
        keep_codes : bool
            Change so little that codes of `start` and of this estimator can be compared with each other; `kept_` says
            how they go together. Otherwise all has to be coded again.
        set_aside : int
            Rows, drawn at random, that are not learnt from. What their codes are like is kept, to see later whether
            data drift (`projbank.check`); so it is of rows that a learner does not draw.

        Returns
        -------
        self
        """
        if keep_codes and start is None:
            raise ValueError("keep_codes is for learning on from a bank: give start, too.")
        check_int(self, "set_aside", set_aside, 0)
        return self._fit(X, y=y, queries=queries, start=start, keep_codes=keep_codes, set_aside=set_aside)

    def query_values(self, X: Any) -> NDArray[np.float32]:
        """Queries for an asymmetric search, (n, n_bits) float32: ``index.search(bank.query_values(queries), k=100)``.

        What they are is told by how the bank was learnt: margins, or tanh of the margins where that is what the learner
        takes for bits.
        """
        rows = self._check_rows(X)
        return self.model_.query_values(rows, n_threads=thread_count(self.n_jobs), verbose=self.verbose)

    def query_codes(self, X: Any) -> NDArray[np.uint8]:
        """Codes of queries for Hamming search, as `transform`; a bank for distances gives queries bits of their own."""
        check_is_fitted(self)
        return pack(self.query_values(X) > 0) if self.model_.has_query_bits else self.transform(X)

    @property
    def model_bytes(self) -> int:
        """Bytes of what coding needs."""
        check_is_fitted(self)
        return self.model_.nbytes

    @property
    @abstractmethod
    def _place(self) -> Place:
        """Where the learner and its models stand."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.grouping, str):
            check_choice(self, "grouping", self.grouping, self._place.groupings)
        auto(whole(1))(self, "n_assign", self.n_assign)

    def _learn(
        self,
        rows: RowSource,
        n_bits: int,
        seed: int,
        y: ArrayLike | None = None,
        queries: Any = None,
        start: ModelCoder | None = None,
        keep_codes: bool = False,
        set_aside: int = 0,
    ) -> None:
        learner, run = self._place.learner_class().of(self.get_params(deep=False)), self._run(seed)
        learnt = left_over(rows, set_aside, seed)
        used = np.delete(learnt, learner.undrawn(rows.chosen(learnt) if set_aside else rows, run))
        if rows.in_chunks and (rows.is_lazy or len(used) < rows.shape[0]):
            rows = SpooledRows(rows, np.union1d(used, looked_at(rows.shape[0], used)), self.verbose)
        everything, rows = rows, rows.chosen(learnt) if set_aside else rows
        if y is not None and learner.takes_labels:
            run = replace(run, labels=check_labels(self, y, everything.shape[0])[learnt])
        if queries is not None and learner.takes_queries:
            run = replace(run, queries=self._check_queries(queries))
        self.comparable_, self.kept_ = (), None
        if start is None:
            self._adopt(learner.learn(rows, n_bits, run))
        else:
            old = start_model(start, self._place.model_class(), learner, rows.shape[1], self.n_bits)
            model = learner.learn(rows, old.n_bits, replace(run, start=old, keep=keep_codes))
            if keep_codes:
                model, self.kept_ = keep_comparable(rows, old, model, run)
                self.comparable_ = (start.identity(), *getattr(start, "comparable_", ()))
            self._adopt(model)
        self.reference_ = Reference.beside(self, everything, used)
        if len(self.loss_curve_):
            say(f"loss: {_sample(self.loss_curve_)}", self.verbose)

    def _check_queries(self, queries: Any) -> RowSource:
        rows = as_rows(queries)
        if len(rows.shape) != 2 or rows.shape[0] < 1 or rows.shape[1] != self.n_features_in_:
            reject(self, "queries", f"rows of {self.n_features_in_} numbers, as X has, at least one", rows.shape)
        return rows

    def _run(self, seed: int | None = None) -> Run:
        seed = self.seed() if seed is None else seed
        return Run(type(self).__name__, seed, thread_count(self.n_jobs), self.verbose)

    def _write(self, rows: RowSource, out: NDArray[Any]) -> None:
        self.model_.write(rows, out, n_threads=thread_count(self.n_jobs), verbose=self.verbose)

    def _adopt(self, model: Model) -> None:
        """Take a model, and show what it holds as attributes."""
        self.model_ = model
        for name, array in model.arrays.items():
            setattr(self, f"{name}_", array)
        self.n_bits_ = model.n_bits
        self.n_iter_ = max(0, len(model.loss_curve) - 1)
        self.group_sizes_ = model.group_sizes

    @property
    def _saved_arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"{name}_" for name in self._place.model_class().names)

    def _check_loaded(self) -> None:
        arrays = {name.removesuffix("_"): getattr(self, name) for name in self._saved_arrays}
        model = self._place.model_class().of_arrays(arrays, self.get_params(deep=False))
        planes = int(model.group_sizes.sum()) // model.n_features
        if self.n_assign not in ("auto", planes):  # files of 0.1.0: the parameter counted for "soft-" groupings only
            self.n_assign = "auto"
        self._check_parameters()
        self.n_features_in_ = model.n_features
        self._adopt(model)


def _call(coder: RowCoder, method: str, rows: RowSource) -> NDArray[Any]:
    return getattr(coder, method)(rows)


def _sample(curve: NDArray[np.float64]) -> str:
    """Write a curve as a few of its values."""
    steps = sorted({round(t) for t in np.linspace(0, len(curve) - 1, 8)})
    return ", ".join(f"{curve[t]:.4f} (step {t})" for t in steps)
