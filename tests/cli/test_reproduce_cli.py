import json
import re

import numpy as np
import pytest

from projbank.evaluate.retrieval import Retrieval
from projbank.paper.protocols import Cost
from tests.methods.data import digit_products


@pytest.fixture
def data(tmp_path):
    X, y = digit_products(150)
    np.save(tmp_path / "v.npy", X[:, :640])
    np.save(tmp_path / "v.labels.npy", y)
    return tmp_path / "v.npy"


def cells(folder, name):
    return json.loads((folder / "results" / name).read_text())["cells"]


def test_results_of_evaluate_are_used(projbank, data, tmp_path):
    out = tmp_path / "out"
    (out / "results").mkdir(parents=True)
    words = ("--queries", 15, "-k", "10,50,100", "--seeds", 1, "--asymmetric", "--name", "v")
    target = out / "results" / "v.json"
    labels = data.with_name("v.labels.npy")
    assert (
        projbank(
            "evaluate", data, "--labels", labels, "--methods", "original,lsh", "--bits", "80", "-o", target, *words
        )[0]
        == 0
    )
    before = target.read_bytes()
    code, said, err = projbank(
        "reproduce", "retrieval", "--data", data, "--out", out, "--methods", "lsh", "--ratios", "8", "--seeds", 1
    )
    assert (code, err) == (0, "")
    assert "2 cells" in said
    assert target.read_bytes() == before
    assert "LSH" in (out / "report.html").read_text()


def test_stopped_and_started_again(projbank, data, tmp_path, monkeypatch):
    calls = []

    def stop_at_third(kind):
        real = kind.measure

        def measure(experiment, key):
            calls.append((experiment.name, key["method"], key["n_bits"]))
            if len(calls) == 3:
                raise KeyboardInterrupt
            return real(experiment, key)

        monkeypatch.setattr(kind, "measure", measure)

    stop_at_third(Retrieval)
    stop_at_third(Cost)
    words = (
        "reproduce",
        "retrieval",
        "cost",
        "--data",
        data,
        "--out",
        tmp_path / "out",
        "--methods",
        "lsh",
        "--ratios",
        "8",
        "--seeds",
        1,
    )
    code, _, err = projbank(*words)
    assert code == 130
    assert "the same command goes on" in err
    assert len(cells(tmp_path / "out", "v.json")) == 2
    assert projbank(*words)[0] == 0
    assert calls[2:] == [("cost", "lsh", 80), ("cost", "lsh", 80)]
    assert projbank(*words)[0] == 0
    assert len(calls) == 4
    assert projbank(*words, "--since", "2100-01-01T00:00:00")[0] == 0
    assert len(calls) == 7


def test_a_failing_method_becomes_a_row(projbank, data, tmp_path):
    out = tmp_path / "out"
    words = ("--ratios", 8, "--seeds", 1, "--set", "sign-select.n_bits=9000")
    code, said, _ = projbank(
        "reproduce", "retrieval", "--data", data, "--out", out, "--methods", "lsh,sign-select", *words
    )
    assert code == 0
    assert "1 of this run failed and say why" in said
    assert "Sign, chosen, n_bits=9000 failed at 80 bits" in (out / "report.html").read_text()


def test_sets_are_passed_over_where_a_protocol_does_not_suit(projbank, data, tmp_path):
    sets = tmp_path / "sets.toml"
    sets.write_text(
        '[a]\nvectors = "v.npy"\nonly = ["cost", "action"]\n[b]\nvectors = "v.npy"\nlabels = "v.labels.npy"\n'
    )
    out = tmp_path / "out"
    assert (
        projbank(
            "reproduce",
            "retrieval",
            "action",
            "cost",
            "--data",
            sets,
            "--out",
            out,
            "--methods",
            "lsh",
            "--ratios",
            8,
            "--seeds",
            1,
        )[0]
        == 0
    )
    assert sorted(path.name for path in (out / "results").iterdir()) == [
        "a.action.json",
        "a.cost.json",
        "b.cost.json",
        "b.json",
    ]
    assert (
        projbank("reproduce", "action", "--data", data, "--out", out, "--methods", "lsh", "--ratios", 8, "--seeds", 1)[
            0
        ]
        == 0
    )
    assert len(cells(out, "v.action.json")[0]["accuracies"]) == 5
    again = ("reproduce", "cost", "--data", sets, "--sets", "b", "--out", tmp_path / "other", "--methods", "lsh")
    assert projbank(*again, "--ratios", 8)[0] == 0
    assert [path.name for path in (tmp_path / "other" / "results").iterdir()] == ["b.cost.json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("magic",), "NAME must be one of retrieval, tuned, cost, .*Got 'magic'"),
        (("retrieval", "--quick"), "give either --data or --quick"),
        (("retrieval", "--methods", "magic"), "--methods must be names out of"),
        (("retrieval", "--ratios", "8,x"), "--ratios must be whole numbers"),
        (("retrieval", "--ratios", "0"), "--ratios must be at least 1"),
        (("retrieval", "--seeds", "0"), "--seeds must be at least 1"),
        (("retrieval", "--data", "none.npy"), "none.npy: no such file"),
        (("retrieval", "--sets", "w"), "--sets must be names out of v. Got 'w'"),
    ],
)
def test_bad_options_are_one_line(projbank, data, tmp_path, words, message):
    code, out, err = projbank("reproduce", *words, "--data", data, "--out", tmp_path / "out")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert re.search(message, err)
    assert not (tmp_path / "out").exists()


def test_a_set_without_labels_leaves_nothing_behind(projbank, tmp_path):
    np.save(tmp_path / "alone.npy", np.zeros((20, 8), np.float32))
    code, _, err = projbank("reproduce", "retrieval", "--data", tmp_path / "alone.npy", "--out", tmp_path / "out")
    assert code == 2
    assert err.rstrip().endswith("alone.labels.npy: no such file.")
    assert not (tmp_path / "out").exists()


def test_a_plan_that_is_refused_is_not_noted(projbank, data, tmp_path):
    out = tmp_path / "out"
    code, _, err = projbank("reproduce", "retrieval", "--data", data, "--out", out, "--train", 10**6)
    assert code == 2
    assert "'n_train' parameter" in err
    assert not [path for path in out.rglob("*") if path.is_file()]


def test_report_of_nothing_is_one_line(projbank, tmp_path):
    code, _, err = projbank("report", tmp_path)
    assert code == 2
    assert "has no results" in err
