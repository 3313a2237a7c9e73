import json
import re

import numpy as np
import pytest

from projbank.evaluate.retrieval import Retrieval
from projbank.methods import METHODS
from tests.methods.data import digit_products


@pytest.fixture
def files(tmp_path):
    X, y = digit_products(150)
    np.save(tmp_path / "v.npy", X[:, :600])
    np.save(tmp_path / "l.npy", y)
    return tmp_path / "v.npy", "--labels", tmp_path / "l.npy", "--out", tmp_path / "r.json"


def test_all_methods_in_one_command(projbank, files):
    quick = [f"{name}.max_iter=2" for name, cls in METHODS.items() if "max_iter" in cls().get_params()]
    quick += [f"{name}.n_neighbors=5" for name, cls in METHODS.items() if "n_neighbors" in cls().get_params()]
    settings = [word for setting in quick for word in ("--set", setting)]
    code, out, err = projbank(
        "evaluate", *files, "--methods", "all", "--bits", "16,700", "-k", 5, "--seeds", 1, "--asymmetric", *settings
    )
    assert (code, err) == (0, "")
    records = json.loads(files[-1].read_text())["cells"]
    assert {record["method"] for record in records} == {"original", *METHODS}
    failed = {record["method"] for record in records if "error" in record}
    banks = {"bpb", "bpb-equal", "randst+bpb", "kbpb-poly", "kbpb-rbf", "kbpb-rbf-equal", "joint"}
    too_long = banks | {"pka", "bpbc", "cbe", "cbe-rand", "sign-select"}
    assert failed == too_long  # 700 bits of 600
    assert re.search(r"^bpb .*, 700 bits, 1 failed: ValueError: .* must be at most", out, re.M)
    lines = [line for line in out.splitlines() if line.startswith(" ")]
    assert max(map(len, lines)) <= 80
    scores = [float(found.group()) for line in lines if (found := re.search(r"\b\d\.\d{3}\b", line))]
    assert re.search(r" 700 +-( +-)+$", lines[-2].rstrip()) or " - " in lines[-3]  # failed rows stand last
    assert scores == sorted(scores, reverse=True)
    assert len(scores) > 30
    assert "joint (asymmetric)" in out
    assert "150 vectors of 600 dimensions, 15 queries, 135 gallery, 90 training" in out
    again = projbank("evaluate", *files, "--bits", "16,700", "-k", 5, "--seeds", 1, "--asymmetric", *settings)
    assert again[0] == 0
    assert again[1] == out  # nothing was measured again


def test_nothing_but_failures_is_no_success(projbank, files):
    code, out, _ = projbank("evaluate", *files, "--methods", "joint,bpbc", "--bits", "700", "-k", 5, "--seeds", 1)
    assert code == 1
    assert "must be at most" in out
    words = ("evaluate", *files, "--methods", "joint,lsh", "--bits", "700", "-k", 5, "--seeds", 1)
    assert projbank(*words)[0] == 0  # LSH has a result


def test_stopped_and_started_again(projbank, files, monkeypatch):
    real, calls = Retrieval.measure, []

    def stop(experiment, key):
        calls.append(key["method"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(experiment, key)

    words = ("evaluate", *files, "--methods", "lsh,srht+sign", "--bits", "16", "-k", 5, "--seeds", 2)
    monkeypatch.setattr(Retrieval, "measure", stop)
    code, _, err = projbank(*words)
    assert code == 130
    assert "1 cells are in" in err
    code, out, _ = projbank(*words)
    assert code == 0
    assert calls == ["lsh", "srht+sign", "srht+sign", "lsh", "srht+sign"]
    assert out.count("±") == 2


def test_without_labels_recall_of_the_floats_is_measured(projbank, files):
    words = ("--bits", "64", "--seeds", 1)
    code, out, err = projbank("evaluate", files[0], "--methods", "original,lsh,joint", *words)
    assert (code, err) == (0, "")
    assert "R@10" in out
    assert "R@50" in out
    (floats,) = [line for line in out.splitlines() if "original" in line]
    assert floats.count("1.000") == 2
    np.save(files[2], np.full(150, -1))
    code, _, err = projbank("evaluate", *files, "--methods", "lsh", *words)
    assert code == 2
    assert "labels of v are all -1 (unknown)" in err


def test_other_splits(projbank, files):
    words = ("evaluate", *files, "--methods", "lsh", "--bits", "16", "-k", 5, "--seeds", 2, "--first-seed", 3)
    assert projbank(*words)[0] == 0
    assert [cell["seed"] for cell in json.loads(files[-1].read_text())["cells"]] == [3, 4]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--methods", "lsh,magic"), "methods must be names out of"),
        (("--bits", "16,x"), "--bits must be whole numbers"),
        (("-k", "5,"), "-k must be whole numbers"),
        (("--seeds", "0"), "--seeds must be at least 1"),
        (("--first-seed", "-1"), "--first-seed must be at least 0"),
        (("--set", "lsh"), "--set must be METHOD.PARAMETER=VALUE"),
        (("--set", "lsh.magic=1"), "--set names no parameter of lsh"),
        (("--queries", "150"), "'n_queries' parameter"),
        (("--labels", "none.npy"), "none.npy: no such file"),
    ],
)
def test_bad_options_are_one_line(projbank, files, words, message):
    code, out, err = projbank("evaluate", *files, *words)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1
    assert not files[-1].exists()
