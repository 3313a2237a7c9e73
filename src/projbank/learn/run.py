"""The seam between estimators and learners: what a fit tells a learner beside the rows and the parameters."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from projbank.models.model import Model
from projbank.rows.source import RowSource

T = TypeVar("T")

NEIGHBORS = 100
"""Neighbours of a vector that count as similar, unless told otherwise."""


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


class Learner(Protocol):
    """A way to learn a model; its parameters are the fields of a dataclass."""

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> Model:
        """Learn a model of `n_bits` from rows; the same for any number of threads."""


class FromParameters:
    """Mixin of learners: built from the parameters of an estimator that are called like the learner's fields."""

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

    def undrawn(self, rows: RowSource, run: Run) -> NDArray[np.int64]:
        """Ascending ids of the rows that the learner never looks at in this run; none by default."""
        return np.empty(0, np.int64)


def chosen(value: T | str, default: T) -> T:
    """Return a parameter, or what "auto" stands for."""
    return default if isinstance(value, str) else value


def lowered(name: str, value: int, limit: int, why: str) -> int:
    """Return a parameter, or `limit` with a warning where it is above."""
    if value <= limit:
        return value
    warnings.warn(f"{name}={value} is lowered to {limit}: {why}.", UserWarning, stacklevel=4)
    return limit
