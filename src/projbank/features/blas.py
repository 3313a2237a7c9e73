"""One BLAS thread while images are spread over threads: sums then never depend on the number of threads."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread inside a `with` block."""
    return _controller().limit(limits=1, user_api="blas")


@functools.lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    """Find the libraries once: that takes milliseconds, as long as encoding a small image."""
    return ThreadpoolController()
