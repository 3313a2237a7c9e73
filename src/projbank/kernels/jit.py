"""How kernels are compiled: on first call, once per signature, cached on disk wherever a place can be written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def kernel(*signatures: str) -> Callable[[F], F]:
    """Make a serial Numba kernel that releases the GIL.

    Nothing is compiled at import: the first call compiles all `signatures` (or loads them from the cache) and calls
    dispatch to the first one that fits. Numba writes its cache beside the module, in the user's cache folder if that is
    read-only, and if neither can be written the kernel is compiled in memory. Floating point is strict (no fused or
    reordered operations), so every path that sums in the same order gives the same bits.

    Parameters
    ----------
    *signatures : str
        Numba signatures, e.g. ``"void(float32[:, ::1], int64)"``.
    """

    def decorate(function: F) -> F:
        compiled = None

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                compiled = _compile(function, signatures)
            return compiled(*args)

        return call  # type: ignore[return-value]

    return decorate


def _compile(function: Callable[..., Any], signatures: tuple[str, ...]) -> Callable[..., Any]:
    import numba

    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # no folder can be written: compile in memory
        dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    for signature in signatures:
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher
