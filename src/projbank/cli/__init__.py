"""The command line: its commands, each imported when it is asked for, and how errors and Ctrl-C reach the user."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # see projbank/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    import typer

__all__ = ["app", "main"]

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_pressed: list[bool] = []
"""Something where Ctrl-C was pressed."""
_HELP = "Very long vectors to short binary codes: learn a bank, code vectors, search them, check what was lost."
_START, _PHOTOS, _CODES, _MEASURE = "First steps", "Photos", "Vectors, codes, neighbours", "Measurements"
_COMMANDS = {
    "demo": ("demo:demo", _START),
    "info": ("info:info", _START),
    "album": ("album:album", _PHOTOS),
    "find": ("album:find", _PHOTOS),
    "duplicates": ("album:duplicates", _PHOTOS),
    "serve": ("album:serve", _PHOTOS),
    "features": ("features:features", _CODES),
    "fit": ("bank:fit", _CODES),
    "encode": ("encode:encode", _CODES),
    "index": ("search:index", _CODES),
    "search": ("search:search", _CODES),
    "store": ("store:store", _CODES),
    "recode": ("recode:recode", _CODES),
    "check": ("check:check", _MEASURE),
    "evaluate": ("evaluate:evaluate", _MEASURE),
    "reproduce": ("reproduce:reproduce", _MEASURE),
    "report": ("reproduce:report", _MEASURE),
}
"""Name of a command to its module here, its function, and its place in the map of commands."""


def main() -> None:
    """Run the command line. Functions import what they need, so that Ctrl-C is one line from the first moment."""
    try:
        restore = _insist_on_interrupts()
        try:
            run()
        finally:
            restore()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def run() -> None:
    """Run a command; a user's error is one line and exit code 2, Ctrl-C is 130."""
    import io
    import os
    import warnings

    from projbank.progress import plain

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"projbank: warning: {plain(' '.join(str(message).split()))}", file=sys.stderr)

    warnings.showwarning = warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be Unicode
    try:
        first = sys.argv[1] if len(sys.argv) > 1 else ""
        build([first] if first in _COMMANDS else _COMMANDS)(prog_name="projbank")
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reader of the pipe has gone
        sys.exit(141)
    except (KeyboardInterrupt, _InterruptedError) as stop:
        print(plain(str(stop) or "interrupted"), file=sys.stderr)
        sys.exit(INTERRUPTED)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:  # Ctrl-C while Typer reads the command line
            print("interrupted", file=sys.stderr)
        raise
    except (ValueError, TypeError, OSError, ImportError, MemoryError, SystemError) as error:
        if _pressed:  # modules in C put other errors in its place
            print("interrupted", file=sys.stderr)
            sys.exit(INTERRUPTED)
        if os.environ.get("PROJBANK_DEBUG") or isinstance(error, SystemError):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"projbank: error: {plain(text)}", file=sys.stderr)
        sys.exit(2)


def build(names: Iterable[str] = _COMMANDS) -> typer.Typer:
    """Build the application with some of its commands, whose modules are imported here."""
    import importlib

    import typer

    def show_version(wanted: bool) -> None:
        if wanted:
            from projbank import __version__

            print(f"projbank {__version__}")
            raise typer.Exit

    shown = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version and exit.")

    def projbank(version: bool = shown) -> None:
        pass

    app = typer.Typer(
        name="projbank",
        help=_HELP,
        epilog="Begin with `projbank demo`. `projbank COMMAND -h` explains a command.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_HELP)(projbank)
    for name in names:
        (module, function), panel = _COMMANDS[name][0].split(":"), _COMMANDS[name][1]
        command = getattr(importlib.import_module(f"projbank.cli.{module}"), function)
        app.command(name, rich_help_panel=panel)(_interruptible(command))
    return app


class _InterruptedError(Exception):
    """Ctrl-C within a command; Typer would end without a word."""


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    import functools

    @functools.wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as stop:
            raise _InterruptedError(str(stop)) from stop

    return call


class _Interrupt(KeyboardInterrupt):
    """Ctrl-C, of a class that can be watched."""


def _insist_on_interrupts() -> Callable[[], None]:
    """Raise Ctrl-C anew where it got lost: Python only reports what is raised in a finalizer or a callback from C.

    Returns a function that makes signals what they were.
    """
    import signal
    import threading
    import weakref

    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a job in the background of a shell
    if ignored or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return lambda: None  # signals can only be set in the main thread
    alive: weakref.ref[_Interrupt] | None = None

    def watched() -> _Interrupt:
        nonlocal alive
        stop = _Interrupt()
        alive = weakref.ref(stop)
        return stop

    def interrupt(*_: Any) -> None:
        _pressed.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        if alive is None or alive() is None:  # else it is on its way, or what it ended is being tidied up
            raise watched()

    def report(lost: Any) -> None:
        if not issubclass(lost.exc_type, _Interrupt):
            hook(lost)

    def restore() -> None:
        _pressed.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook

    hook, sys.unraisablehook = sys.unraisablehook, report
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGALRM)}
    return restore


def __getattr__(name: str) -> Any:
    if name == "app":
        return build()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
