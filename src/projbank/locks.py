"""A lock on a folder or file that ends with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two runs at once are not told apart
    fcntl = None  # type: ignore[assignment]


def try_lock(handle: int) -> bool:
    """Lock an open file or folder for this process; False where another process holds it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        return True
    return True


@contextlib.contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock on a file, which is made if it is missing; BlockingIOError with the text `busy` if it is taken."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        if not try_lock(handle):
            raise BlockingIOError(busy)
        yield
    finally:
        os.close(handle)
