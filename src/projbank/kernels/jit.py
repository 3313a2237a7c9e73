"""How kernels are compiled: on first call, once per signature, cached on disk wherever a place can be written."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import xxhash
from numba.core.caching import IndexDataCacheFile

_DIGITS = 16


def kernel(*signatures: str, reorder: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a serial Numba kernel that releases the GIL.

    Nothing is compiled at import: the first call compiles all `signatures` (or loads them from the cache) and calls
    dispatch to the first one that fits. Numba writes its cache beside the module, in the user's cache folder if that is
    read-only, and if neither can be written the kernel is compiled in memory. Floating point is strict (no fused or
    reordered operations), so every path that sums in the same order gives the same bits; `reorder` lets the compiler
    split a sum over vector lanes, which is still the same for every call.

    Parameters
    ----------
    *signatures : str
        Numba signatures, e.g. ``"void(float32[:, ::1], int64)"``.
    reorder : bool
        Allow the compiler to reorder sums.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = None

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                compiled = _compile(function, signatures, {"reassoc", "nsz", "contract"} if reorder else False)
            return compiled(*args)

        return call

    return decorate


def _compile(
    function: Callable[..., Any], signatures: tuple[str, ...], fastmath: set[str] | bool
) -> Callable[..., Any]:
    dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    with contextlib.suppress(RuntimeError):  # no folder can be written: compile in memory
        dispatcher.enable_caching()
        file = dispatcher._cache._cache_file
        file.__class__ = CheckedCacheFile
        file._source_stamp = file._source_stamp, os.stat(Path(__file__).with_name("simd.py")).st_mtime
    for signature in signatures:
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


class CheckedCacheFile(IndexDataCacheFile):
    """Numba's index and data files, each with the checksum of its pickle behind it.

    A file that does not agree with its checksum counts as missing. Nothing in it is unpickled.
    """

    def _dump(self, obj: Any) -> bytes:
        data = super()._dump(obj)
        return data + _digest(data)

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            return pickle.loads(_checked(file.read()))

    def _load_index(self) -> dict[Any, str]:
        try:
            with open(self._index_path, "rb") as file:
                data = file.read()
            version = pickle.dumps(self._version, protocol=-1)
            if not data.startswith(version):  # of another version of Numba, or damaged
                return {}
            stamp, overloads = pickle.loads(_checked(data[len(version) :]))
        except OSError:
            return {}
        return overloads if stamp == self._source_stamp else {}


def _digest(data: bytes) -> bytes:
    return xxhash.xxh3_64(data).hexdigest().encode()


def _checked(data: bytes) -> bytes:
    content, digits = data[:-_DIGITS], data[-_DIGITS:]
    if digits != _digest(content):
        raise OSError("a file of the cache is damaged")  # what Numba takes for a missing file
    return content
