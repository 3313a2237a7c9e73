"""What is shown: progress bars on a terminal, silent in a pipe and with verbose=0; text that can't harm a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress(title: str, total: int, verbose: int) -> Iterator[Callable[[int], None]]:
    """Give a function that advances a bar on stderr by so many steps of `total`."""
    if not verbose or not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)


def say(message: str, verbose: int) -> None:
    """Print one line about the course of the work on stderr, if `verbose`."""
    if verbose:
        print(message, file=sys.stderr, flush=True)


def console(**settings: Any) -> Any:
    """Return a Rich console that takes every word for what it is: brackets and colons in names mean nothing."""
    from rich.console import Console

    return Console(markup=False, emoji=False, **settings)


def plain(text: object) -> str:
    """Return a text with control characters, and what is no Unicode, written out: names come from anywhere."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in str(text)
    )
