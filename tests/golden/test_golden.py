"""Codes never change by accident: same seed and data, same bits as recorded, at one thread and at two.

Where a change is meant, `python -m tests.golden --write` records the new codes; say why in the commit.
"""

import json
from pathlib import Path

import pytest

from tests.golden.cases import cases, digest
from tests.golden.machine import machine

RECORDED = Path(__file__).parent / "codes.json"


@pytest.mark.parametrize("name", cases())
def test_codes_are_those_recorded_at_any_number_of_threads(name):
    estimator, X = cases()[name]
    code = digest(estimator, X, n_jobs=2)
    recorded = json.loads(RECORDED.read_text())
    if machine() == recorded["machine"] and name in recorded["codes"]:
        assert code == recorded["codes"][name]
    else:  # not recorded, or other libraries round other digits: then threads are compared with each other
        assert code == digest(estimator, X, n_jobs=1)
