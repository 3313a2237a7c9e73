"""Hints of what to install name extras that exist, in a form that works in a clone."""

import re
import tomllib
from pathlib import Path

from projbank.extras import install

ROOT = Path(__file__).parents[1]


def test_hints_work_in_a_clone():
    assert install("hdf5").startswith("pip install '.[hdf5]'")


def test_extras_that_are_named_exist():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {extra for text in texts for extra in re.findall(r"install\(['\"](\w+)['\"]\)", text)}
    assert len(named) >= 5
    assert named <= set(known)
    assert not any(re.search(r"pip install \"?projbank", text) for text in texts)
