"""Some damaged files of every kind; ``python -m tests.fuzz --n 100000`` tries more."""

import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked children")
def test_damaged_files_are_refused_or_harmless():
    """In a process of its own, which has no threads when it forks."""
    words = [sys.executable, "-m", "tests.fuzz", "--n", "2000", "--seed", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"refused"' in done.stdout
