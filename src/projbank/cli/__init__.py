"""The command line: one module per family of commands, imported when it is asked for."""

import contextlib
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line. What it needs is imported here, so that Ctrl-C is one line from the first moment."""
    try:
        with _insistent_interrupts():
            from projbank.cli.app import run

            run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


class _Interrupt(KeyboardInterrupt):
    """Ctrl-C, of a class that can be watched."""


@contextlib.contextmanager
def _insistent_interrupts() -> Iterator[None]:
    """Raise Ctrl-C anew where it got lost: Python only reports what is raised in a finalizer or a callback from C."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
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


def __getattr__(name: str) -> Any:
    if name == "app":
        from projbank.cli.app import build

        return build()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
