import io
import sys

import numpy as np
import pytest

from projbank.progress import TimeLeft, progress, say


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_are_for_terminals(monkeypatch):
    for stream, verbose, shown in ((Terminal(), 1, True), (Terminal(), 0, False), (io.StringIO(), 1, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("counting sheep", 3, verbose) as advance:
            for _ in range(3):
                advance(1)
        assert ("counting sheep" in stream.getvalue()) is shown


def test_say(capsys):
    say("one line", 1)
    say("another", 0)
    assert capsys.readouterr() == ("", "one line\n")


class Clock:
    """A clock that a test turns."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def course(seconds):
    """Estimates after each step of so many seconds, and what was left by then."""
    clock = Clock()
    left = TimeLeft(clock)
    for done, step in enumerate(seconds, 1):
        clock.now += step
        left.note(1, len(seconds) - done)
        yield left.seconds, sum(seconds[done:])


def test_the_time_left_is_known_from_the_first_step_on():
    clock = Clock()
    left = TimeLeft(clock)
    assert (left.seconds, str(left)) == (None, "-:--:--")
    left.note(0, 10)
    assert left.seconds is None
    clock.now += 4
    left.note(1, 10)
    assert (left.seconds, str(left)) == (40, "0:00:40")
    clock.now += 0.5
    assert (left.seconds, str(left)) == (39.5, "0:00:40")
    clock.now += 100
    assert str(left) == "0:00:00"


@pytest.mark.parametrize("first", [0.1, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_estimates_are_within_a_factor_of_two_after_a_tenth(first, seed):
    """Steps vary by a factor of 6; the first one takes as long as several, for programs start in it."""
    seconds = np.random.default_rng(seed).uniform(0.05, 0.3, 200).tolist()
    seconds[0] += first
    guesses = list(course(seconds))
    assert guesses[0][0] is None  # a step of two hundred says little
    later = [(guess, truth) for guess, truth in guesses if truth <= 0.9 * sum(seconds) and truth > 1]
    assert len(later) > 100
    assert all(truth / 2 <= guess <= 2 * truth for guess, truth in later)


def test_a_caller_may_know_better():
    clock = Clock()
    left = TimeLeft(clock)
    left.tell(90)
    clock.now += 30
    assert str(left) == "0:01:00"


def test_totals_that_were_a_guess_may_change(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress("counting sheep", 70, 1) as advance:
        advance(3, left=5, title="counting lambs")
        for _ in range(5):
            advance(1)
    assert "8/8" in sys.stderr.getvalue()
    assert "counting lambs" in sys.stderr.getvalue()


def test_short_work_shows_no_estimate():
    clock = Clock()
    left = TimeLeft(clock)
    clock.now += 1
    left.note(1, 9)
    assert str(left) == "-:--:--"
    clock.now += 3
    assert left.seconds == 6
