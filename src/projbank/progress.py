"""What is shown: progress bars on a terminal, silent in a pipe and with verbose=0; text that can't harm a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

MONTH = 30 * 86_400.0
"""The time left of long work is estimated from all steps of so many seconds."""


@contextlib.contextmanager
def progress(
    title: str, total: int, verbose: int, *, done: int = 0, is_long: bool = False
) -> Iterator[Callable[..., None]]:
    """Give a function that advances a bar on stderr by so many steps of `total`, and may change its title.

    Of work that `is_long` the time left is told by its whole course.
    """
    if not verbose or not sys.stderr.isatty():
        yield lambda steps, title="": None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(20 if is_long else 40), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    text = (TextColumn("{task.description}"),)
    shown = (*columns, *times, *text) if is_long else (*text, *columns, *times)
    speed: dict[str, Any] = {"refresh_per_second": 2, "speed_estimate_period": MONTH} if is_long else {}
    with Progress(*shown, console=console(stderr=True), transient=not is_long, **speed) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda steps, title=title: bar.update(task, advance=steps, description=title)


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
