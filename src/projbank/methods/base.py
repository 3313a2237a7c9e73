"""What the compared methods share: what is learnt is named once, and a block of rows is coded by its projections."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from projbank.base import RowCoder
from projbank.kernels.pack import pack_above
from projbank.models.file import ModelFileError
from projbank.params import check_positive, reject
from projbank.rows.source import RowSource, row_blocks
from projbank.threads import blas_threads, thread_count

Floats = NDArray[np.float32]


def learnt(dtype: str, shape: str) -> Any:
    """Declare an array that is learnt, with dtype and shape ("D": dimensions, "d": `n_bits_`, "*": any)."""
    return field(init=False, metadata={"array": (dtype, shape)})


@dataclass(eq=False, repr=False, kw_only=True)
class AnyLength(RowCoder):
    """A way to make vectors shorter. A subclass learns in `_train` and projects a block of rows in `_project`.

    All methods take `random_state`, which some ignore, `n_jobs` (threads, None is all cores) and `verbose`.

    Binary methods have `thresholds_` (n_bits,) float32 among their arrays: bit p is 1 iff projection p is above it.
    Methods whose codes are neither bits nor real numbers code a block in `_code`.

    From the fields that are `learnt` follow the model file, its checks, and `model_bytes`.
    """

    _not_for_coding: ClassVar[tuple[str, ...]] = ("objective_curve_",)
    _block_bytes: ClassVar[int] = 8 << 20
    _block_rows: ClassVar[int] = 1
    """Rows that a block has at least, however long they are."""
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    verbose: int = 0
    thresholds_: Floats = field(init=False)

    @property
    def _arrays(self) -> dict[str, tuple[str, str]]:
        """Dtype and shape of what is learnt, by name."""
        return {found.name: found.metadata["array"] for found in fields(self) if "array" in found.metadata}

    @property
    def _saved_arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("shape_", *self._arrays)

    @property
    def model_bytes(self) -> int:
        """Bytes of what coding needs."""
        check_is_fitted(self)
        return sum(getattr(self, name).nbytes for name in self._arrays if name not in self._not_for_coding)

    @abstractmethod
    def _train(self, rows: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        """Learn from checked rows; returns the length of the code in bits or numbers. What `fit` hands on follows."""

    def _project(self, rows: Floats) -> Floats:
        """Projections of a block, (n, at least n_bits) with adjacent columns."""
        raise TypeError(f"{type(self).__name__} has no projections")

    def _derive(self) -> None:
        """Set what follows from the learnt arrays."""

    def _check_arrays(self) -> None:
        """Raise ModelFileError where arrays of a file, whose types and shapes are right, do not fit each other."""

    def _learn(self, rows: RowSource, n_bits: int, seed: int, **more: Any) -> None:
        means = rows.statistics().means  # raises for NaN and infinity
        length = self._train(rows, means, n_bits, np.random.default_rng(seed), **more)
        self._set_shape(rows.shape[1], length)
        self._derive()

    def _write(self, rows: RowSource, out: NDArray[Any]) -> None:
        n_rows, n_features = rows.shape
        bounds = row_blocks(n_rows, n_features, max(self._block_bytes, 4 * n_features * self._block_rows))
        with blas_threads(1):
            rows.write(self._code, out, bounds, n_threads=thread_count(self.n_jobs), verbose=self.verbose)

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        """Code a block of rows; returns False where what was computed has a NaN or infinity."""
        values = self._project(rows)
        if out.dtype == np.uint8:
            return bool(pack_above(values, self.thresholds_, out))
        if self.distance == "hamming":
            np.subtract(values[:, : self.n_bits_], self.thresholds_, out=out)
        else:
            out[:] = values
        return bool(np.isfinite(out).all())

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
        for name, (dtype, shape) in self._arrays.items():
            array = getattr(self, name)
            wanted = [sizes.get(word, -1) for word in shape.split()]
            got = array.shape if len(wanted) == array.ndim else ()
            if array.dtype != dtype or not got or any(-1 != n != m for n, m in zip(wanted, got, strict=True)):
                raise ModelFileError(f"{name} is {array.dtype} {array.shape}, not {dtype} ({shape}) of {sizes}")
        self._check_parameters()
        self._set_shape(sizes["D"], sizes["d"])
        self._check_arrays()
        self._derive()


@dataclass(eq=False, repr=False, kw_only=True)
class Method(AnyLength):
    """A method of which `n_bits` sets the length of the code, in bits or real numbers; "auto" is about D / 16.

    Some also have `max_memory`: GiB above which fitting refuses to start.
    """

    n_bits: int | str = field(default="auto", kw_only=False)


@dataclass(eq=False, repr=False, kw_only=True)
class Iterative:
    """A method that is learnt step by step, and keeps what falls on the way."""

    objective_curve_: NDArray[np.float64] = learnt("float64", "*")

    @property
    def n_iter_(self) -> int:
        """Steps that were taken."""
        return len(self.objective_curve_) - 1


def check_indices(name: str, indices: NDArray[np.integer], limit: int) -> None:
    """Raise where one is not in [0, limit): what is derived from them would be wrong, or never end."""
    if indices.size and (indices.min() < 0 or indices.max() >= limit):
        raise ModelFileError(f"{name} has values that are not in [0, {limit})")


def check_memory(owner: Any, n_bytes: int, what: str) -> None:
    """Raise MemoryError before anything is allocated where `what` would take more than the owner's `max_memory`."""
    limit = check_positive(owner, "max_memory", owner.max_memory)
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
