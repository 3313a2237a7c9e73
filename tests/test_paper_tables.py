"""Tables of the page on the paper, from made-up records."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "docs")
    monkeypatch.delitem(sys.modules, "paper_tables", raising=False)
    import paper_tables

    return paper_tables


def records(**more):
    """Of one set: floats and BPB over five splits at two lengths, LSH of two splits at the second."""
    about = {"title": "X", "N": 2000, "D": 640, "classes": 5, "learnt_from": 900, "bits": [10, 80]}
    found = {"original": [[0.5, 0.4]], "bpb": [[0.5, 0.3], [0.5, 0.45]], "lsh": [[None, None, 0], [0.5, 0.2, 2]]}
    known = {"retrieval": {"x": found}, "sets": {"x": about}, "svm": {}, "cost": {}, "soft": {}, "pair_error": {}}
    return known | more


def marks(script, text, found):
    """Marks of the first statement that begins so."""
    said = next(one for one in script.STATEMENTS if one.text.startswith(text))
    sets = script.study(found)
    return script._marks(script.judge(said, sets[0], sets))


def test_marks_say_the_least_number_of_splits_where_it_is_not_five(script):
    assert marks(script, "BPB keeps", records()) == "-+"
    assert marks(script, "BPB is level with CBE", records()) == "+²"
    assert marks(script, "KBPB leads", records()) == "."


def test_areas_have_splits_of_their_own(script):
    whole = {"x": {"bpb": {"80": [0.3, 0.2, 50]}, "lsh": {"80": [0.3, 0.1, 12]}}}
    assert marks(script, "BPB has the largest area", records(whole=whole)) == "+¹²"
    assert marks(script, "BPB is level with CBE", records(whole=whole)) == "+²"
