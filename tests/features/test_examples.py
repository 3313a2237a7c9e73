"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ["codebooks", "extractor", "sift", "trajectories"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(f"projbank.features.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
