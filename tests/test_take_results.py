"""Result files are folded into the records of the pages."""

import copy
import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("take_results", DOCS / "take_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def records():
    return json.loads((DOCS / "results.json").read_text(encoding="utf-8"))


def cells(method, n_bits, values, name="worm", params=None, **more):
    """Cells of a method, a seed each, as `projbank reproduce retrieval` writes them."""
    common = {"dataset": {"name": name}, "protocol": {}, "method": method, "n_bits": n_bits, "params": params or {}}
    scores = [{"precision": {"10": value + 0.1, "50": value, "100": value / 2}} for value in values]
    return [common | more | {"seed": seed} | score for seed, score in enumerate(scores)]


def test_means_of_more_splits_stay(script, records):
    before = copy.deepcopy(records["retrieval"]["worm"])
    script.take(records, cells("lsh", 421, [0.1, 0.2]))
    assert records["retrieval"]["worm"] == before
    script.take(records, cells("lsh", 421, [0.1, 0.2, 0.1, 0.2, 0.15, 0.15]))
    assert records["retrieval"]["worm"]["lsh"][1] == [0.25, 0.15, 6]
    script.take(records, cells("new", 843, [0.1, 0.2, 0.3, 0.4, 0.5]))
    assert records["retrieval"]["worm"]["new"] == [[None, None, 0], [None, None, 0], [0.4, 0.3], [None, None, 0]]


def test_whole_rankings_variants_and_causes_have_their_places(script, records):
    script.take(records, cells("new", 421, [0.3], map=0.21, area=0.2))
    assert records["whole"]["worm"]["new"] == {"421": [0.21, 0.2, 1]}
    script.take(records, cells("new", 421, [0.3], params={"lam": 2.0}))
    assert records["variants"]["worm"]["new lam=2.0"] == {"421": [0.4, 0.3, None, None, 1]}
    script.take(records, cells("lsh", 99, [0.3], name="other"))
    assert records["variants"]["other"]["lsh"] == {"99": [0.4, 0.3, None, None, 1]}
    protocol = {"experiment": "causes", "training": 80}
    script.take(records, cells("axes", 99, [0.3, 0.2], name="other", protocol=protocol))
    assert records["causes"]["other"] == {"99": {"training": 80, "axes": [0.25, 2]}}
    script.take(records, cells("lsh", 1348, [0.3, 0.4]))
    script.take(records, cells("lsh", 1348, [0.7]))
    assert records["variants"]["worm"]["lsh"] == {"1348": [0.45, 0.35, None, None, 2]}
    of = {"of": "soft"}
    script.take(
        records, [cells("bpb", 1349, [0.3])[0] | of, cells("bpb", 1349, [0.4], params={"grouping": "soft"})[0] | of]
    )
    assert [1349, 0.3, 1] in records["soft"]["worm"]["bpb hard"]
    assert [1349, 0.4, 1] in records["soft"]["worm"]["bpb soft"]
    errors = cells("original", None, [0.3, 0.3], protocol={"experiment": "pair-error"}, pair_error=0.4)
    errors += cells("bpb", 843, [0.3], protocol={"experiment": "pair-error"}, pair_error=0.45)
    script.take(records, [cell | {"dataset": {"name": "other"}} for cell in errors])
    assert records["pair_error"]["other"] == {script.ONE_BIT: [[None, 0.4, 2]], "bpb": [[843, 0.45, 1]]}
    before = copy.deepcopy(records["pair_error"]["worm"]["bpb"])
    script.take(records, errors[-1:])
    assert records["pair_error"]["worm"]["bpb"] == before  # of more splits
    script.take(records, [cells("bad", 421, [0.3])[0] | {"error": "no memory"}])
    assert "bad" not in records["retrieval"]["worm"]


def test_cells_of_other_training_sizes_stand_apart(script, records):
    own = records["sets"]["worm"]["learnt_from"]
    before = copy.deepcopy(records["retrieval"]["worm"])
    script.take(records, cells("bpb-equal", 421, [0.9] * 9, protocol={"training": 300}))
    script.take(records, cells("bpb", 421, [0.3], params={"lam": 2.0}, protocol={"training": 300}))
    assert records["retrieval"]["worm"] == before
    assert records["variants"]["worm"]["bpb-equal N=300"] == {"421": [1.0, 0.9, None, None, 9]}
    assert records["variants"]["worm"]["bpb lam=2.0 N=300"]["421"][1] == 0.3
    script.take(records, cells("bpb-equal", 421, [0.9] * 9, protocol={"training": own}))
    script.take(records, cells("lsh", 421, [0.9] * 9, protocol={"training": 300}))  # it learns nothing
    assert records["retrieval"]["worm"]["bpb-equal"][1] == records["retrieval"]["worm"]["lsh"][1] == [1.0, 0.9, 9]


def test_chosen_parameters_and_accuracies_are_kept(script, records):
    tuned = {"protocol": {"experiment": "tuned", "training": records["sets"]["worm"]["learnt_from"]}}
    found = [
        cell | {"chosen": {"lam": lam}}
        for cell, lam in zip(cells("bpb", 421, [0.3, 0.4], **tuned), (0.1, 10.0), strict=True)
    ]
    script.take(records, found)
    assert records["tuned"]["worm"]["bpb"]["421"] == [0.35, 2, [{"lam": 0.1}, {"lam": 10.0}]]
    script.take(records, found[:1] + cells("bpb", 421, [0.2, 0.8]))
    assert records["tuned"]["worm"]["bpb"]["421"] == [0.3, 1, [{"lam": 0.1}], 0.2]  # the default, of the same split
    action = cells("bpb", 421, [0.3], params={"lam": 8.0}, protocol={"experiment": "action"}, accuracy=94.26)
    script.take(records, action)
    assert records["action"]["worm"]["bpb lam=8.0"] == {"421": [94.26, 1]}


def test_a_split_that_stands_in_two_files_counts_once(script, records):
    script.take(records, cells("new", 421, [0.3, 0.6]) + cells("new", 421, [0.3]))
    assert records["retrieval"]["worm"]["new"][1] == [0.55, 0.45, 2]


def test_whole_rankings_of_more_splits_stay(script, records):
    script.take(records, cells("new", 421, [0.3, 0.3], map=0.21, area=0.2))
    script.take(records, cells("new", 421, [0.3], map=0.5, area=0.5))
    assert records["whole"]["worm"]["new"] == {"421": [0.21, 0.2, 2]}


def test_records_are_written_as_they_stand(script, records, tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    monkeypatch.setattr(script, "RECORDS", path)
    script.write(records)
    assert path.read_bytes() == (DOCS / "results.json").read_bytes()
