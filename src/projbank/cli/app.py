"""The application: its commands, and how errors reach the user (one line, exit code 2)."""

from __future__ import annotations

import functools
import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import typer

from projbank.cli import album, bank, demo, evaluate, features, find, info, reproduce, search
from projbank.progress import plain

app = typer.Typer(
    name="projbank",
    help="Very long vectors to medium-length binary codes: fit a projection bank, encode, look, search.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Tell Ctrl-C in one line; Typer would end without a word."""

    @functools.wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as stop:
            print(str(stop) or "interrupted", file=sys.stderr)
            raise

    return call


_commands: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "fit": bank.fit,
    "encode": bank.encode,
    "features": features.features,
    "index": search.index,
    "search": search.search,
    "evaluate": evaluate.evaluate,
    "reproduce": reproduce.reproduce,
    "report": reproduce.report,
    "info": info.info,
    "album": album.album,
    "find": find.find,
}
for _name, _command in _commands.items():
    app.command(_name)(_interruptible(_command))


def run() -> None:
    """Run the command line; a user's error is one line and exit code 2, Ctrl-C is 130."""
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be Unicode
    try:
        app(prog_name="projbank")
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reader of the pipe has gone
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("PROJBANK_DEBUG"):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"projbank: error: {plain(text)}", file=sys.stderr)
        sys.exit(2)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning is one line, too."""
    print(f"projbank: warning: {plain(' '.join(str(message).split()))}", file=sys.stderr)
