"""What is shown: progress bars on a terminal, silent in a pipe and with verbose=0; text that can't harm a terminal."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

_ENOUGH, _MUCH = 1 / 8, 1 / 12
"""Steps tell the time left by themselves from this share of the time of the first one on; the first one tells it
where it is such a part of all."""
_TOO_SOON = 3.0
"""Seconds in which nothing is said: programs start, and who waits that long needs no estimate."""


class TimeLeft:
    """The time left of some work, as text: steps to come take what those before them took.

    The first step, in which programs start, does not count as soon as there are others to go by.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = self._told = clock()
        self._first: tuple[float, float] | None = None
        self._done = 0.0
        self._seconds: float | None = None

    def note(self, steps: float, left: float) -> None:
        """So many more steps are done, so many are left."""
        if steps <= 0:
            return
        now = self._clock()
        self._done += steps
        self._first = since, first = self._first or (now, self._done)
        if now - since > _ENOUGH * (since - self._start):
            self.tell(left * (now - since) / (self._done - first))
        elif self._done >= _MUCH * (self._done + left):
            self.tell(left * (now - self._start) / self._done)

    def tell(self, seconds: float) -> None:
        """So many seconds are left from now on, as far as is known."""
        self._seconds, self._told = seconds, self._clock()

    @property
    def seconds(self) -> float | None:
        """Seconds left from now on; None before there is an estimate, and in the first seconds."""
        now = self._clock()
        if self._seconds is None or now - self._start < _TOO_SOON:
            return None
        return max(0.0, self._seconds - (now - self._told))

    def __str__(self) -> str:
        seconds = self.seconds
        return "-:--:--" if seconds is None else str(timedelta(seconds=math.ceil(seconds)))


@contextlib.contextmanager
def progress(
    title: str, total: int, verbose: int, *, done: int = 0, is_long: bool = False
) -> Iterator[Callable[..., None]]:
    """Give a function that advances a bar on stderr by so many steps of `total`.

    The function takes a new `title`, how many steps are `left` where the total was a guess, and the `seconds` left
    where they are known better than by the steps before. The bar of work that `is_long` stays on the terminal.
    """
    if not verbose or not sys.stderr.isatty():
        yield lambda steps, **_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    time_left = TimeLeft()
    columns = (BarColumn(20 if is_long else 40), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left {task.fields[time_left]}", style="progress.remaining"))
    text = (TextColumn("{task.description}"),)
    shown = (*columns, *times, *text) if is_long else (*text, *columns, *times)
    with Progress(*shown, console=console(stderr=True), transient=not is_long, refresh_per_second=2) as bar:
        task = bar.add_task(title, total=total, completed=done, time_left=time_left)
        course = bar.tasks[0]

        def advance(
            steps: int, *, title: str | None = None, left: int | None = None, seconds: float | None = None
        ) -> None:
            bar.update(task, advance=steps, description=title)
            if left is not None:
                course.total = course.completed + left
            if seconds is None:
                time_left.note(steps, (course.total or 0) - course.completed)
            else:
                time_left.tell(seconds)

        yield advance


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
