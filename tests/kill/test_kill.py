"""A few kills of every quick command; ``python -m tests.kill --n 200`` kills more, and features with its workers."""

import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked for in /proc")
def test_killed_at_random_moments():
    words = [sys.executable, "-m", "tests.kill", "--n", "9", "--only", "fit again,encode again,append to an index"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"failures": 0' in done.stdout
