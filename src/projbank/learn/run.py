"""The seam between estimators and learners: what a fit tells a learner, and what fits on the same rows share."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from projbank.models.model import Model
from projbank.rows.source import RowSource

T = TypeVar("T")

NEIGHBORS = 100
"""Neighbours of a vector that count as similar, unless told otherwise."""

P = ParamSpec("P")
R = TypeVar("R")

_NOT_IN_KEY = ("rows", "n_threads", "verbose")


@dataclass(frozen=True)
class Run:
    """One fit.

    owner : the estimator that errors and warnings speak of
    labels : (n,) int64 classes of the rows, -1 where unknown; None if there are none
    queries : rows like those that will be searched for; None if there are none
    start : a model of the learner's own kind to learn on from; None to learn anew
    keep : what is learnt must have the groups of `start`, whose weights may be blended with those learnt
    """

    owner: str
    seed: int
    n_threads: int = 1
    verbose: int = 0
    labels: NDArray[np.int64] | None = None
    queries: RowSource | None = None
    start: Model | None = None
    keep: bool = False


class Learner(ABC):
    """A way to learn a model: a dataclass whose fields are called as the parameters of an estimator that make it."""

    renews: ClassVar[bool] = False
    """Whether the learner can learn on from ``run.start``."""
    takes_labels: ClassVar[bool] = False
    """Whether the learner learns from ``run.labels``."""
    takes_queries: ClassVar[bool] = False
    """Whether the learner looks at ``run.queries``."""

    @classmethod
    def of(cls, params: dict[str, Any]) -> Self:
        """Take what is wanted from all parameters of an estimator."""
        return cls(**{field.name: params[field.name] for field in fields(cls)})  # type: ignore[arg-type]

    @abstractmethod
    def learn(self, rows: RowSource, n_bits: int, run: Run) -> Model:
        """Learn a model of `n_bits` from rows; the same for any number of threads."""

    def undrawn(self, rows: RowSource, run: Run) -> NDArray[np.int64]:
        """Ascending ids of the rows that the learner never looks at in this run; none by default."""
        return np.empty(0, np.int64)


def chosen(value: T | str, default: T) -> T:
    """Return a parameter, or what "auto" stands for."""
    return default if isinstance(value, str) else value


def neighbor_count(value: int | str, n_samples: int, default: int = NEIGHBORS) -> int:
    """Return how many neighbours of a vector count as similar: fewer than there are vectors."""
    why = f"there are {n_samples} training vectors"
    return lowered("n_neighbors", chosen(value, default), n_samples - 1, why)


def lowered(name: str, value: int, limit: int, why: str) -> int:
    """Return a parameter, or `limit` with a warning where it is above."""
    if value <= limit:
        return value
    warnings.warn(f"{name}={value} is lowered to {limit}: {why}.", UserWarning, stacklevel=5)
    return limit


class Place(NamedTuple):
    """Where a learner and its models stand, as "module:class"; imported when they are needed."""

    learner: str
    model: str
    own_groupings: tuple[str, ...] = ()
    """Groupings that this learner knows beside those that all know."""

    @property
    def groupings(self) -> tuple[str, ...]:
        """Names that the parameter `grouping` may have; "soft..." are those of earlier versions."""
        return (
            "auto",
            "kmeans",
            "kmeans-equal",
            "random",
            "contiguous",
            "soft",
            "soft-kmeans",
            "soft-random",
            *self.own_groupings,
        )

    def learner_class(self) -> Any:
        """Import the class of the learner."""
        return imported(self.learner)

    def model_class(self) -> Any:
        """Import the class of the models."""
        return imported(self.model)


def imported(place: str) -> Any:
    """Import what "module:name" stands for."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


class Memo:
    """Results of `remembered` functions of one array, which must not change meanwhile.

    Attributes
    ----------
    spared : seconds that the results recalled in the last `use` took when they were computed
    """

    def __init__(self, X: np.ndarray) -> None:
        self.spared = 0.0
        self._array = X  # held, so that no other array can come to lie in its place
        self._kept: dict[Hashable, tuple[Any, Any, float]] = {}

    @contextmanager
    def use(self) -> Iterator[Self]:
        """Recall results in this block."""
        self.spared = 0.0
        token = _memo.set(self)
        try:
            yield self
        finally:
            _memo.reset(token)

    def recall(self, function: Callable[..., R], arguments: dict[str, Any]) -> R:
        """Result of the function, kept from an equal call if there was one; `rng` ends in the same state."""
        if not _same_memory(arguments["rows"], self._array):
            return function(**arguments)
        rng = arguments.get("rng")
        key = (function, *(_key(value) for name, value in arguments.items() if name not in _NOT_IN_KEY))
        if key not in self._kept:
            start = time.perf_counter()
            result = function(**arguments)
            self._kept[key] = result, rng and rng.bit_generator.state, time.perf_counter() - start
            return result
        result, state, seconds = self._kept[key]
        if rng:
            rng.bit_generator.state = state
        self.spared += seconds
        return result


_memo: ContextVar[Memo | None] = ContextVar("memo", default=None)


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function of `rows` be recalled inside `Memo.use`.

    Its other arguments are arrays, plain values and a generator `rng`; nobody writes to what it returns.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        memo = _memo.get()
        if memo is None:
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return memo.recall(function, bound.arguments)

    return call


def _same_memory(rows: RowSource, array: np.ndarray) -> bool:
    return rows.array is not None and rows.array.__array_interface__ == array.__array_interface__


def _key(value: Any) -> Hashable:
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, str | float | int | None):
        return value
    array = np.ascontiguousarray(value)
    return array.shape, array.dtype.str, hashlib.blake2b(array.tobytes()).digest()
