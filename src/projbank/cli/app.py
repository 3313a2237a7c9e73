"""The application: its commands, and how errors reach the user (one line, exit code 2)."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import typer

from projbank.cli import bank, demo, evaluate, features, info, reproduce, search

app = typer.Typer(
    name="projbank",
    help="Very long vectors to medium-length binary codes: fit a projection bank, encode, look, search.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("fit")(bank.fit)
app.command("encode")(bank.encode)
app.command("features")(features.features)
app.command("index")(search.index)
app.command("search")(search.search)
app.command("evaluate")(evaluate.evaluate)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(reproduce.report)
app.command("info")(info.info)


def main() -> None:
    """Run the command line; a user's error is one line and exit code 2, Ctrl-C is 130."""
    warnings.showwarning = _warn
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
        print(f"projbank: error: {text}", file=sys.stderr)
        sys.exit(2)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning is one line, too."""
    print(f"projbank: warning: {message}", file=sys.stderr)
