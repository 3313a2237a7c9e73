"""Ctrl-C that is not lost."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any


class _Interrupt(KeyboardInterrupt):
    """Ctrl-C, of a class that can be watched."""


@contextlib.contextmanager
def insistent_interrupts() -> Iterator[None]:
    """Raise Ctrl-C anew where it got lost: Python only reports what is raised in a finalizer or a callback from C."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a job in the background of a shell
    if ignored or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield  # signals can only be set in the main thread
        return
    alive: weakref.ref[_Interrupt] | None = None

    def watched() -> _Interrupt:
        nonlocal alive
        stop = _Interrupt()
        alive = weakref.ref(stop)
        return stop

    def interrupt(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        if alive is None or alive() is None:  # else it is on its way, or what it ended is being tidied up
            raise watched()

    def report(lost: Any) -> None:
        if not issubclass(lost.exc_type, _Interrupt):
            hook(lost)

    hook, sys.unraisablehook = sys.unraisablehook, report
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGALRM)}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
