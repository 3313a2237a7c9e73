"""What all methods share: one way to fit, to code in blocks, to count bytes, to save and load."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg  # noqa: F401 - its BLAS must be loaded before `_blas` looks
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from projbank import bits as packed
from projbank.base import RowCoder, auto_bits
from projbank.kernels.pack import pack_above
from projbank.models.file import ModelFileError
from projbank.params import check_int, check_positive, reject
from projbank.progress import progress
from projbank.rows.source import check_finite, column_statistics, read_rows, release_pages, row_blocks
from projbank.threads import run_all, thread_count

Floats = NDArray[np.float32]
Arrays = tuple[tuple[str, str, str], ...]


@functools.cache
def _blas() -> Any:
    """Handle of NumPy's and SciPy's BLAS; looking for them costs more than coding many rows."""
    return ThreadpoolController()


class Method(RowCoder, ABC):
    """A way to make vectors shorter. A subclass learns in `_learn` and codes a block of rows in `_code`.

    `_arrays` names what is learnt, with dtype and shape ("D": dimensions, "d": `n_bits_`, "*": any): from it follow
    the model file, its checks, and `model_bytes`.
    """

    distance: ClassVar[str]
    """How codes are compared: "hamming" (packed bits), "l2" (real numbers) or "adc" (real queries, stored codes)."""
    free_length: ClassVar[bool] = True
    """Whether `n_bits` sets the length; for the others it follows from the data."""

    _arrays: ClassVar[Arrays] = ()
    _not_for_coding: ClassVar[tuple[str, ...]] = ("objective_curve_",)
    _block_bytes: ClassVar[int] = 8 << 20
    _block_rows: ClassVar[int] = 1
    """Rows that a block has at least, however long they are."""
    _saved_arrays: ClassVar[tuple[str, ...]] = ("shape_",)

    def __init__(
        self,
        n_bits: int | str = "auto",
        *,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._saved_arrays = ("shape_", *(name for name, _, _ in cls._arrays))

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from X, (n, D) array, memory map, scipy.sparse matrix or h5py data set; `y` is ignored."""
        self._check_parameters()
        X = self._check_rows(X, reset=True)
        seed = int(check_random_state(self.random_state).randint(2**31))
        n_bits = self._resolve_bits(X.shape[1])
        means, _ = column_statistics(X)  # raises for NaN and infinity
        with _blas().limit(
            limits=1, user_api="blas"
        ):  # work is shared out in blocks: same bits for any number of threads
            length = self._learn(X, means, n_bits, np.random.default_rng(seed))
        self._set_shape(X.shape[1], length)
        self._derive()
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Codes of X: uint8 (n, code_bytes), or float32 (n, n_bits_) where the distance is "l2"."""
        X = self._check_rows(X)
        out = np.empty((X.shape[0], self._n_features_out), np.float32 if self.distance == "l2" else np.uint8)
        self.write(X, out)
        return out

    def write(self, X: Any, out: NDArray[Any]) -> None:
        """Write the codes of X into an array, e.g. a memory-mapped file."""
        X = self._check_rows(X)

        def code(start: int, stop: int) -> int:
            rows = read_rows(X, start, stop)
            with np.errstate(invalid="ignore", over="ignore"):  # bad values are refused below
                is_finite = self._code(rows, out[start:stop])
            if not is_finite:
                check_finite(rows, start)  # a sum may also overflow where all values are finite: it stands
            release_pages(rows)
            return stop - start

        n_rows, n_features = X.shape
        blocks = row_blocks(n_rows, n_features, max(self._block_bytes, 4 * n_features * self._block_rows))
        with _blas().limit(limits=1, user_api="blas"), progress("coding", n_rows, self.verbose) as advance:
            for done in run_all(code, blocks, thread_count(self.n_jobs)):
                advance(done)

    @property
    def code_bytes(self) -> int:
        """Bytes of one code."""
        check_is_fitted(self)
        return self._n_features_out * (4 if self.distance == "l2" else 1)

    @property
    def model_bytes(self) -> int:
        """Bytes of what coding needs."""
        check_is_fitted(self)
        return sum(getattr(self, name).nbytes for name, _, _ in self._arrays if name not in self._not_for_coding)

    @abstractmethod
    def _learn(self, X: Any, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        """Learn from checked rows; returns the length of the code in bits or numbers."""

    @abstractmethod
    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        """Code a block of rows; returns False where what was computed has a NaN or infinity."""

    def _derive(self) -> None:
        """Set what follows from the learnt arrays."""

    def _check_parameters(self) -> None:
        if self.free_length and not (isinstance(self.n_bits, str) and self.n_bits == "auto"):
            check_int(self, "n_bits", self.n_bits, 1)
        thread_count(self.n_jobs)

    def _resolve_bits(self, n_features: int) -> int:
        if not self.free_length:
            return n_features
        if isinstance(self.n_bits, str):
            return auto_bits(n_features)
        return int(self.n_bits)

    def _limit_bits(self, n_bits: int, limit: int, why: str) -> None:
        if n_bits > limit:
            reject(self, "n_bits", f"at most {limit}, {why}", n_bits)

    def _set_shape(self, n_features: int, n_bits: int) -> None:
        self.n_features_in_, self.n_bits_ = n_features, n_bits
        self.shape_ = np.array([n_features, n_bits], np.int64)

    def _check_loaded(self) -> None:
        if self.shape_.shape != (2,) or self.shape_.dtype != np.int64 or self.shape_.min() < 1:
            raise ModelFileError("damaged sizes")
        sizes = {"D": int(self.shape_[0]), "d": int(self.shape_[1])}
        for name, dtype, shape in self._arrays:
            array = getattr(self, name)
            wanted = [sizes.get(word, -1) for word in shape.split()]
            got = array.shape if len(wanted) == array.ndim else ()
            if array.dtype != dtype or not got or any(-1 != n != m for n, m in zip(wanted, got, strict=True)):
                raise ModelFileError(f"{name} is {array.dtype} {array.shape}, not {dtype} ({shape}) of {sizes}")
        self._set_shape(sizes["D"], sizes["d"])
        self._derive()

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_


class BinaryMethod(Method):
    """Bits are the signs of real projections against thresholds; a subclass projects a block in `_project`.

    A subclass has `thresholds_` (n_bits,) float32 among its arrays; bit p is 1 iff projection p is above it.
    """

    distance = "hamming"
    thresholds_: Floats

    def decision_function(self, X: Any) -> Floats:
        """Margins of X, (n, n_bits) float32; bit p of the code is 1 iff margin p is above 0."""
        X = self._check_rows(X)
        margins = np.empty((X.shape[0], self.n_bits_), np.float32)
        self.write(X, margins)
        return margins

    @abstractmethod
    def _project(self, rows: Floats) -> Floats:
        """Projections of a block, (n, at least n_bits) with adjacent columns."""

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        values = self._project(rows)
        if out.dtype == np.uint8:
            return bool(pack_above(values, self.thresholds_, out))
        np.subtract(values[:, : self.n_bits_], self.thresholds_, out=out)
        return bool(np.isfinite(out).all())

    @property
    def _n_features_out(self) -> int:
        return packed.code_bytes(self.n_bits_)


class RealMethod(Method):
    """Codes are real numbers; a subclass projects a block in `_project`."""

    distance = "l2"

    @abstractmethod
    def _project(self, rows: Floats) -> Floats:
        """Real numbers of a block, (n, n_bits)."""

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        out[:] = self._project(rows)
        return bool(np.isfinite(out).all())


def check_memory(owner: Method, n_bytes: int, what: str, limit: float) -> None:
    """Raise MemoryError before anything is allocated where `what` would take more than `limit` GiB."""
    limit = check_positive(owner, "max_memory", limit)
    if n_bytes > limit * 2**30:
        raise MemoryError(
            f"{type(owner).__name__} would take {n_bytes / 2**30:.1f} GiB for {what}, "
            f"but max_memory is {limit:g} GiB: ask for fewer bits, choose another method, or raise the limit."
        )


def centred_thresholds(projection: Any, means: NDArray[np.float64], center: bool, n_bits: int) -> Floats:
    """Thresholds of projections of centred data: the projected mean, or zeros."""
    if not center:
        return np.zeros(n_bits, np.float32)
    return np.ascontiguousarray(projection(means.astype(np.float32)[None])[0, :n_bits])
