"""How kernels are compiled: on first call, once per signature, cached on disk wherever a place can be written."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numba

from projbank.kernels.cache import CheckedCacheFile


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
        dispatcher._cache._cache_file.__class__ = CheckedCacheFile
    for signature in signatures:
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher
