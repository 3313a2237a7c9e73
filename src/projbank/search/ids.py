"""Ids of codes: whole numbers or texts, distinct; and the small values (path, title ...) kept with codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_ids(ids: ArrayLike, count: int | None = None) -> NDArray[np.int64]:
    """Return `ids` as int64 (count,), or raise an error that says what was allowed and what came."""
    array = np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be whole numbers (int64). Got dtype {array.dtype} instead.")
    _check_shape(array.shape, count)
    if len(array) and (array.min() < 0 or array.max() > np.iinfo(np.int64).max - 1):
        raise ValueError(f"ids must be in the range [0, 2**63 - 2]. Got {array.min()} to {array.max()}.")
    array = array.astype(np.int64, copy=False)
    if np.any(array[1:] <= array[:-1]):
        values, counts = np.unique(array, return_counts=True)
        if len(values) < len(array):
            raise ValueError(f"ids must be distinct. Got {values[np.argmax(counts > 1)]} more than once.")
    return array


def are_texts(ids: Any) -> bool:
    """Whether ids are texts: an array of strings, or anything whose first element is one."""
    kind = getattr(getattr(ids, "dtype", None), "kind", "O")
    if kind in "UT":
        return True
    return kind == "O" and len(ids) > 0 and isinstance(ids[0], str)


def check_texts(ids: Sequence[Any] | NDArray[Any], count: int | None = None) -> list[str]:
    """Return ids that are texts as a list, or raise an error that says what was allowed and what came."""
    _check_shape(np.shape(ids), count)
    texts: list[str] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"ids must be texts, all of them. Got {type(text).__name__} at place {place}.")
        if not text:
            raise ValueError(f"ids must not be empty texts. Got one at place {place}.")
    if len(set(texts)) < len(texts):
        seen: set[str] = set()
        twice = next(text for text in texts if text in seen or seen.add(text))  # type: ignore[func-returns-value]
        raise ValueError(f"ids must be distinct. Got {twice!r} more than once.")
    return texts


def new_ids(
    ids: Any,
    count: int,
    first: int,
    named: bool | None,
    find: Callable[[Any], NDArray[np.int64]],
    holder: str,
) -> tuple[NDArray[np.int64], list[str] | None]:
    """Return numbers for new codes, and names where ids are texts; an error where they do not fit what is held.

    Parameters
    ----------
    ids : the user's ids; None gives `first`, `first` + 1 ...
    first : the number that no code has or had, nor any larger one
    named : whether the ids held are texts; None if nothing is held
    find : function from ids to the numbers held, -1 for unknown ones
    holder : "index" or "store"
    """
    running = np.arange(first, first + count, dtype=np.int64)
    if ids is None:
        if named and count:
            raise ValueError(f"ids must be given for new codes: those of this {holder} are texts.")
        return running, None
    known = f"new. Got {{}}, which the {holder} already holds"
    if are_texts(ids):
        if named is False:
            raise TypeError(f"ids must be whole numbers, as those that the {holder} holds. Got texts.")
        names = check_texts(ids, count)
        refuse(find(names) >= 0, names, known)
        return running, names
    numbers = check_ids(ids, count)
    if named and count:
        raise TypeError(f"ids must be texts, as those that the {holder} holds. Got dtype {numbers.dtype}.")
    if numbers.min(initial=first) < first:
        refuse(find(numbers) >= 0, numbers, known)
    return numbers, None


def refuse(wrong: NDArray[np.bool_], ids: Any, wanted: str) -> None:
    """Raise an error that says what ids must be, with the first wrong one in place of {}."""
    if np.any(wrong):
        raise ValueError(f"ids must be {wanted.format(ids[int(np.argmax(wrong))])}.")


def encode_payload(payload: Iterable[Any], count: int) -> list[str]:
    """Return one JSON text per code."""
    values = list(payload)
    if isinstance(payload, str | bytes | dict) or len(values) != count:
        raise ValueError(f"payload must be a list of {count} values, one per code. Got {len(values)}.")
    try:
        return [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]
    except (TypeError, ValueError) as error:
        raise TypeError(f"payload must be of JSON values (texts, numbers, lists, dicts). Got: {error}.") from error


def _check_shape(shape: tuple[int, ...], count: int | None) -> None:
    if len(shape) != 1 or (count is not None and shape[0] != count):
        wanted = "1-D" if count is None else f"of shape ({count},), one per code"
        raise ValueError(f"ids must be {wanted}. Got shape {shape}.")
