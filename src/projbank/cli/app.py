"""The application: its commands, and how errors reach the user (one line, exit code 2)."""

from __future__ import annotations

import functools
import importlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from projbank.progress import plain

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
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


class _InterruptedError(Exception):
    """Ctrl-C within a command; Typer would end without a word."""


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as stop:
            raise _InterruptedError(str(stop)) from stop

    return call


def build(names: Iterable[str] = tuple(_COMMANDS)) -> typer.Typer:
    """Build the application with some of its commands, whose modules are imported here."""
    app = typer.Typer(
        name="projbank",
        help="Very long vectors to medium-length binary codes: fit a projection bank, encode, look, search.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_version)
    for name in names:
        (module, function), panel = _COMMANDS[name][0].split(":"), _COMMANDS[name][1]
        command = getattr(importlib.import_module(f"projbank.cli.{module}"), function)
        app.command(name, rich_help_panel=panel)(_interruptible(command))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from projbank import __version__

        print(f"projbank {__version__}")
        raise typer.Exit


def _version(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Very long vectors to medium-length binary codes: fit a projection bank, encode, look, search."""


def run() -> None:
    """Run the command line; a user's error is one line and exit code 2, Ctrl-C is 130."""
    warnings.showwarning = _warn
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
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("PROJBANK_DEBUG"):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"projbank: error: {plain(text)}", file=sys.stderr)
        sys.exit(2)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning is one line, too."""
    print(f"projbank: warning: {plain(' '.join(str(message).split()))}", file=sys.stderr)
