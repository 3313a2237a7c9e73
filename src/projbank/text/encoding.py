"""Fixed-dimensional encodings of texts that are many token vectors each: one inner product stands for MaxSim."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from projbank.kernels.text_buckets import fill_buckets
from projbank.models.file import ModelFile, ModelFileError
from projbank.params import check_int, reject
from projbank.rows.bags import Bags, read_bag, split_bags
from projbank.threads import blas_threads, run_each, thread_count


class FixedDimensionalEncoding(TransformerMixin, ModelFile, BaseEstimator):
    """One long vector for each text that is a set of token vectors (MUVERA, Dhulipala et al., NeurIPS 2024).

    The inner product of a query's and a document's encoding stands for their MaxSim. Random planes cut the space of
    tokens into buckets (SimHash); each bucket of a query holds the sum of its tokens, each bucket of a document their
    mean, and an empty one the token of the nearest bucket. A random matrix of +-1 shortens what a bucket holds, and all
    is done `n_repetitions` times: D = n_repetitions * n_buckets * n_projected.

    Parameters
    ----------
    n_buckets : int, default 32
        Buckets of a repetition, a power of 2.
    n_projected : int, default 16
        Numbers that a bucket holds.
    n_repetitions : int, default 20
    center : bool, default True
        Cut through the mean token of the documents given to `fit`, not through 0: tokens of a network lie on one side
        of it. Only the buckets depend on it, not the numbers in them.
    random_state : int or None, default 0
        Seed of planes and projections.
    n_jobs : int or None, default None
        Threads; None and -1 are all cores. The result does not depend on it.

    Attributes
    ----------
    planes_ : (n_repetitions, k, log2(n_buckets)) float32
    projections_ : (n_repetitions, k, n_projected) float32
    center_ : (k,) float32
        The mean token, or 0.
    n_dims_ : int
    n_features_in_ : int
        Numbers of a token, k.

    Examples
    --------
    >>> import numpy as np
    >>> documents = [np.random.default_rng(i).normal(size=(50, 8)) for i in range(20)]
    >>> encoding = FixedDimensionalEncoding(n_repetitions=4).fit(documents)
    >>> products = encoding.transform_queries([documents[3][:6]]) @ encoding.transform(documents).T
    >>> products.shape, int(products.argmax())
    ((1, 20), 3)
    """

    _saved_arrays = ("planes_", "projections_", "center_")

    def __init__(
        self,
        n_buckets: int = 32,
        n_projected: int = 16,
        n_repetitions: int = 20,
        *,
        center: bool = True,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_buckets = n_buckets
        self.n_projected = n_projected
        self.n_repetitions = n_repetitions
        self.center = center
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Bags, y: Any = None) -> Self:
        """Draw planes and projections; the mean token is all that is learnt from the documents.

        Parameters
        ----------
        X : list of (n_i, k) arrays, or (stacked, offsets)
            Token vectors of documents.
        y : ignored
        """
        n_planes = check_int(self, "n_buckets", self.n_buckets, 1).bit_length() - 1
        if self.n_buckets != 1 << n_planes:
            reject(self, "n_buckets", "a power of 2", self.n_buckets)
        n_projected = check_int(self, "n_projected", self.n_projected, 1)
        n_repetitions = check_int(self, "n_repetitions", self.n_repetitions, 1)
        if not isinstance(self.center, bool | np.bool_):
            reject(self, "center", "a bool", self.center)
        if self.random_state is not None:
            check_int(self, "random_state", self.random_state, 0)
        bags = split_bags(X)
        n_tokens = sum(map(len, bags))
        if n_tokens == 0 or bags[0].shape[1] == 0:
            raise ValueError("X must hold at least one token of at least one number. Got none.")
        width = bags[0].shape[1]
        total = np.zeros(width)
        for i in range(len(bags)):
            total += read_bag(bags, i).sum(axis=0, dtype=np.float64)
        rng = np.random.default_rng(self.random_state)
        self.planes_ = rng.standard_normal((n_repetitions, width, n_planes)).astype(np.float32)
        signs = rng.integers(0, 2, (n_repetitions, width, n_projected), dtype=np.int8) * 2 - 1
        self.projections_ = (signs / np.sqrt(n_projected)).astype(np.float32)
        self.center_ = (total / n_tokens if self.center else np.zeros(width)).astype(np.float32)
        self._derive()
        return self

    def transform(self, X: Bags) -> NDArray[np.float32]:
        """Encode documents, given as to `fit`: (n, D) float32. One without tokens gives zeros and a warning."""
        return self._encode(X, average=True)

    def transform_queries(self, X: Bags) -> NDArray[np.float32]:
        """Encode queries, given as documents are: (n, D) float32. One without tokens gives zeros and a warning."""
        return self._encode(X, average=False)

    @property
    def n_features_in_(self) -> int:
        """Numbers of a token."""
        check_is_fitted(self)
        return len(self.center_)

    @property
    def n_dims_(self) -> int:
        """Numbers of an encoding."""
        check_is_fitted(self)
        n_repetitions, _, n_planes = self.planes_.shape
        return n_repetitions * self.projections_.shape[2] << n_planes

    def _encode(self, X: Bags, average: bool) -> NDArray[np.float32]:
        check_is_fitted(self)
        bags = split_bags(X, self.n_features_in_)
        n_repetitions, _, n_planes = self.planes_.shape
        out = np.zeros((len(bags), n_repetitions, 1 << n_planes, self.projections_.shape[2]), dtype=np.float32)

        def work(i: int) -> None:  # a text by itself, so that its encoding does not depend on the others
            with np.errstate(over="ignore", invalid="ignore"):
                products = read_bag(bags, i) @ self._matrix
            fill_buckets(products, self._thresholds, n_planes, average, out[i])
            if not np.isfinite(out[i]).all():
                raise ValueError(f"X[{i}] holds tokens too large to be encoded in float32.")

        with blas_threads(1):
            run_each(work, [(i,) for i in range(len(bags))], thread_count(self.n_jobs))
        empty = [i for i, bag in enumerate(bags) if not len(bag)]
        if empty:
            warnings.warn(
                f"{len(empty)} of {len(bags)} texts have no tokens (first: {empty[0]}); their encodings are zero.",
                stacklevel=3,
            )
        return out.reshape(len(bags), self.n_dims_)

    def _derive(self) -> None:
        """Set what follows from the arrays: all planes and projections side by side, for one product a text."""
        width = len(self.center_)
        parts = [array.transpose(1, 0, 2).reshape(width, -1) for array in (self.planes_, self.projections_)]
        self._matrix = np.ascontiguousarray(np.hstack(parts))
        self._thresholds = (self.center_.astype(np.float64) @ parts[0]).astype(np.float32)

    def _check_loaded(self) -> None:
        arrays = (self.planes_, self.projections_, self.center_)
        shapes, kinds = [array.shape for array in arrays], {str(array.dtype) for array in arrays}
        if [len(shape) for shape in shapes] != [3, 3, 1] or kinds != {"float32"}:
            raise ModelFileError(f"arrays have the wrong shapes or types: {shapes}, {sorted(kinds)}")
        if shapes[0][:2] != shapes[1][:2] or shapes[0][1] != shapes[2][0]:
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        self._derive()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
