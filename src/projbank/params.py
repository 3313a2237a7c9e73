"""Checks of parameters: every error names the parameter, its owner, what was allowed and what came."""

from __future__ import annotations

import math
import numbers
from typing import Any, NoReturn


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


def check_choice(owner: object, name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if isinstance(value, str) and value in choices:
        return value
    reject(owner, name, "one of " + ", ".join(map(repr, choices)), value)


def reject(owner: object, name: str, allowed: str, value: Any) -> NoReturn:
    """Raise the ValueError for a parameter out of range."""
    title = owner if isinstance(owner, str) else type(owner).__name__
    raise ValueError(f"The {name!r} parameter of {title} must be {allowed}. Got {value!r} instead.")
