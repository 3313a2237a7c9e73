"""What several fits on the same vectors would each compute again, computed once: neighbours, groups of dimensions.

Experiments fit many methods to one training set. Inside `Memo.use` a function marked `remembered` looks its result up;
elsewhere it is a plain function.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from projbank.rows.source import RowSource

P = ParamSpec("P")
R = TypeVar("R")

_NOT_IN_KEY = ("rows", "n_threads", "verbose")


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
