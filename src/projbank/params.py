"""Checks of parameters: every error names the parameter, its owner, what was allowed and what came."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Check = Callable[[object, str, Any], object]
"""Takes the owner of a parameter, its name and value, and raises where that is not allowed."""


def check_int(owner: object, name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int in [low, high]."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        number = int(value)
        if low <= number and (high is None or number <= high):
            return number
    end = "inf)" if high is None else f"{high}]"
    reject(owner, name, f"an int in the range [{low}, {end}", value)


def check_positive(owner: object, name: str, value: Any, *, zero: bool = False) -> float:
    """Return `value` as a finite float above 0 (from 0 on with `zero`)."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and (number > 0 or (zero and number == 0)):
            return number
    reject(owner, name, f"a float in the range {'[' if zero else '('}0.0, inf)", value)


positive: Check = check_positive
not_negative: Check = partial(check_positive, zero=True)


def check_choice(owner: object, name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if isinstance(value, str) and value in choices:
        return value
    reject(owner, name, "one of " + ", ".join(map(repr, choices)), value)


def whole(low: int, high: int | None = None) -> Check:
    """Check that a parameter is an int in [low, high]."""
    return lambda owner, name, value: check_int(owner, name, value, low, high)


def one_of(*choices: str) -> Check:
    """Check that a parameter is one of some words."""
    return lambda owner, name, value: check_choice(owner, name, value, choices)


def checks(**by_name: Check) -> Mapping[str, Check]:
    """Checks of an estimator's parameters."""
    return by_name


def auto(check: Check, *words: str) -> Check:
    """Allow a parameter to be "auto", or one of other `words`, beside what a check allows."""
    allowed = words or ("auto",)
    return lambda owner, name, value: (
        value if isinstance(value, str) and value in allowed else check(owner, name, value)
    )


def check_labels(owner: object, y: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return labels of rows as whole numbers, (n_rows,); -1 is unknown."""
    import numpy as np

    labels = np.asarray(y)
    if labels.shape == (n_rows, 1):
        labels = labels[:, 0]
    if labels.shape != (n_rows,):
        reject(owner, "y", f"an array of shape ({n_rows},), a label for each row", f"shape {labels.shape}")
    if labels.dtype.kind in "OUS":
        return np.unique(labels.astype(str), return_inverse=True)[1].astype(np.int64)
    whole = labels.astype(np.int64) if labels.dtype.kind in "biuf" and np.isfinite(labels).all() else None
    if whole is None or (whole != labels).any():
        reject(owner, "y", "labels: whole numbers (-1 where unknown) or texts", f"values of type {labels.dtype}")
    return whole


def reject(owner: object, name: str, allowed: str, value: Any) -> NoReturn:
    """Raise the ValueError for a parameter out of range."""
    title = owner if isinstance(owner, str) else type(owner).__name__
    raise ValueError(f"The {name!r} parameter of {title} must be {allowed}. Got {value!r} instead.")
