import json

import numpy as np
import pytest

from projbank.evaluate.data import DataSet, draw_split, split_sizes
from projbank.evaluate.results import ResultFile, draw, read_results, summarise
from projbank.evaluate.retrieval import Retrieval, evaluate
from projbank.evaluate.runner import Rules
from projbank.methods import METHODS, search
from projbank.metrics import precision_at_k
from tests.methods.data import digit_products


@pytest.fixture(scope="module")
def digits():
    X, y = digit_products(240)
    return DataSet("digits", X, y)


def run(data, path, methods=("original", "lsh", "sign"), bits=(16, 32), **params):
    settings = {"seeds": range(2), "ks": (5, 10)} | params
    return evaluate(data, methods, bits, ResultFile(path), **settings)


@pytest.mark.parametrize(
    ("n", "n_queries", "n_train"), [(4, None, None), (240, None, None), (240, 7, 100), (50, 48, 2)]
)
def test_splits_are_disjoint_and_training_is_part_of_the_gallery(n, n_queries, n_train):
    sizes = split_sizes(n, n_queries, n_train)
    split = draw_split(n, *sizes, seed=3)
    assert not set(split.queries) & set(split.gallery)
    assert set(split.training) <= set(split.gallery)
    assert sorted([*split.queries, *split.gallery]) == list(range(n))
    assert (len(split.queries), len(split.training)) == sizes
    assert all((np.diff(part) > 0).all() for part in split)
    assert not np.array_equal(draw_split(240, 20, 50, seed=4).queries, draw_split(240, 20, 50, seed=3).queries)


def test_the_papers_sizes():
    assert split_sizes(7000) == (700, 4200)
    assert split_sizes(1_200_000) == (1000, 10_000)


def test_records_hold_what_was_measured(digits, tmp_path):
    records = run(digits, tmp_path / "r.json", asymmetric=True)
    assert [(r["seed"], r["n_bits"], r["method"]) for r in records] == [
        (s, n, m) for s in range(2) for n, m in ((None, "original"), (None, "sign"), (16, "lsh"), (32, "lsh"))
    ]
    assert read_results(tmp_path / "r.json") == records
    for record in records:
        assert record["dataset"] == digits.identity
        assert record["protocol"] == {"queries": 24, "training": 144, "k": [5, 10]}
        assert record["machine"]["cores"] >= 1
        assert record["date"].startswith("20")
        split = draw_split(240, 24, 144, record["seed"])
        queries, gallery = digits.vectors[split.queries], digits.vectors[split.gallery]
        if record["method"] == "original":
            distances = ((queries[:, None] - gallery) ** 2).sum(axis=2)
        else:
            length = {} if record["n_bits"] is None else {"n_bits": record["n_bits"]}
            method = METHODS[record["method"]](random_state=record["seed"], **length)
            method.fit(digits.vectors[split.training])
            bits = [np.unpackbits(method.transform(part), axis=1).astype(int) for part in (queries, gallery)]
            distances = (bits[0][:, None] != bits[1]).sum(axis=2)
            assert set(record["asymmetric"]) == {"5", "10"}
        order = np.argsort(distances, axis=1, kind="stable")
        for k in (5, 10):
            expected = precision_at_k(order, digits.labels[split.gallery], digits.labels[split.queries], k)
            assert record["precision"][str(k)] == pytest.approx(expected, abs=0.01)


def test_a_run_goes_on_where_it_stopped(digits, tmp_path, monkeypatch):
    measured = []
    real = Retrieval.measure

    def counted(experiment, key):
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append((key["seed"], key["n_bits"], key["method"]))
        return real(experiment, key)

    monkeypatch.setattr(Retrieval, "measure", counted)
    with pytest.raises(KeyboardInterrupt):
        run(digits, tmp_path / "r.json")
    kept = read_results(tmp_path / "r.json")
    assert len(kept) == 3
    measured.clear()
    with pytest.raises(KeyboardInterrupt):
        run(digits, tmp_path / "r.json")
    assert len(set(measured)) == 3
    monkeypatch.setattr(Retrieval, "measure", real)
    records = run(digits, tmp_path / "r.json")
    assert len(records) == 8
    assert records[:3] == kept
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_other_data_seeds_and_parameters_are_other_cells(digits, tmp_path):
    path = tmp_path / "r.json"
    run(digits, path, ["lsh"], [16], seeds=[0])
    run(digits, path, ["lsh"], [16], seeds=[0], params={"lsh": {"center": False}})
    run(digits, path, ["lsh"], [16], seeds=[0], ks=[5])
    other = DataSet("digits", digits.vectors[::-1].copy(), digits.labels[::-1].copy())
    run(other, path, ["lsh"], [16], seeds=[0])
    assert len(read_results(path)) == 4


def test_asymmetric_scores_are_added_to_old_records(digits, tmp_path):
    (plain,) = run(digits, tmp_path / "r.json", ["lsh"], [16], seeds=[0])
    (both,) = run(digits, tmp_path / "r.json", ["lsh"], [16], seeds=[0], asymmetric=True)
    assert "asymmetric" not in plain
    assert both["precision"] == plain["precision"]
    assert len(read_results(tmp_path / "r.json")) == 1


def test_a_failing_method_does_not_stop_the_rest(digits, tmp_path, monkeypatch):
    def fail(self, X, y=None):
        raise RuntimeError("no\nluck")

    monkeypatch.setattr(METHODS["cbe"], "fit", fail)
    methods = ["cbe", "sign-select", "lsh"]
    records = run(digits, tmp_path / "r.json", methods, [5000], seeds=[0])
    errors = [record.get("error", "") for record in records]
    assert errors[0] == "RuntimeError: no luck"
    assert "must be at most 2080" in errors[1]
    assert errors[2] == ""
    rows = summarise(records)
    assert [row.name for row in rows] == ["lsh", "cbe", "sign-select"]
    monkeypatch.undo()
    run(digits, tmp_path / "r.json", methods, [5000], seeds=[0])
    assert "no luck" in read_results(tmp_path / "r.json")[0]["error"]
    run(digits, tmp_path / "r.json", methods, [5000], seeds=[0], rules=Rules(retry_failed=True))
    assert "must be at most 2080" in read_results(tmp_path / "r.json")[0]["error"]


def test_bad_numbers_are_named_by_their_row_in_the_file(digits, tmp_path):
    X = digits.vectors.copy()
    bad = int(draw_split(240, 24, 144, seed=0).training[5])
    X[bad, 3] = np.nan
    (record,) = run(DataSet("digits", X, digits.labels), tmp_path / "r.json", ["lsh"], [16], seeds=[0])
    assert record["error"] == f"ValueError: vectors contains NaN at row {bad}, column 3."


def test_slow_cells_run_for_one_seed(digits, tmp_path):
    records = run(digits, tmp_path / "r.json", ["lsh"], [16, 32], seeds=range(3), rules=Rules(0))
    assert [(r["seed"], r["n_bits"]) for r in records] == [(0, 16), (0, 32)]
    assert len(run(digits, tmp_path / "r.json", ["lsh"], [16, 32], seeds=range(3), rules=Rules(None))) == 6


def test_rows_are_means_over_seeds(digits, tmp_path):
    from rich.console import Console

    records = run(digits, tmp_path / "r.json", asymmetric=True)
    rows = summarise(records)
    lsh = next(row for row in rows if row.name == "lsh" and row.n_bits == 16)
    scores = [r["precision"]["5"] for r in records if r["method"] == "lsh" and r["n_bits"] == 16]
    mean = lsh.scores[5]
    assert (mean.value, mean.spread) == pytest.approx((np.mean(scores), np.std(scores, ddof=1)))
    assert (mean.n, len(lsh.good), len(lsh.failed)) == (2, 2, 0)
    firsts = [row.scores[5].value for row in rows]
    assert firsts == sorted(firsts, reverse=True)
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(draw(rows)[0])
    text = console.export_text()
    assert "lsh (asymmetric)" in text
    assert f"{np.mean(scores):.3f} ±{np.std(scores, ddof=1):.3f}" in text


def test_bad_arguments_are_named(digits, tmp_path):
    with pytest.raises(ValueError, match=r"methods must be names out of original, pca, .*Got 'magic'"):
        run(digits, tmp_path / "r.json", ["magic"])
    with pytest.raises(ValueError, match="'k' parameter of evaluate must be an int in the range"):
        run(digits, tmp_path / "r.json", ks=[1000])
    with pytest.raises(ValueError, match="'n_queries' parameter"):
        run(digits, tmp_path / "r.json", n_queries=239)
    with pytest.raises(ValueError, match=r"labels must be 1-D, one per vector \(240\)"):
        DataSet("digits", digits.vectors, digits.labels[:-1])
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        ResultFile(tmp_path / "none" / "r.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a result file, or damaged"),
        ("[1, 2]", "not one of projbank's results"),
        ('{"format": "projbank-results", "version": 99, "cells": []}', "another version"),
        ('{"format": "projbank-results", "version": 1, "cells": [{}]}', "cells lack"),
        (b"\xff\xfe\x00", "not a result file, or damaged"),
    ],
)
def test_foreign_files_are_refused_and_left_as_they_are(tmp_path, content, message):
    path = tmp_path / "r.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        ResultFile(path)
    assert path.read_bytes() == before


def test_result_files_are_plain_json(digits, tmp_path):
    run(digits, tmp_path / "r.json", ["lsh"], [16], seeds=[0])
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["format"] == "projbank-results"
    assert content["cells"][0]["method"] == "lsh"


@pytest.fixture(scope="module")
def unlabelled(digits):
    return DataSet("unlabelled", digits.vectors)


def test_without_labels_the_floats_own_neighbours_count(unlabelled, tmp_path):
    records = run(unlabelled, tmp_path / "r.json", ["original", "lsh", "pca", "pq"], [64], ks=(), asymmetric=True)
    assert all("precision" not in record for record in records)
    for record in records:
        assert record["protocol"]["k"] == [10, 50]
        split = draw_split(240, 24, 144, record["seed"])
        queries, gallery = unlabelled.vectors[split.queries], unlabelled.vectors[split.gallery]
        near = np.argsort(((queries[:, None] - gallery) ** 2).sum(axis=2), axis=1)[:, :10]
        if record["method"] == "original":
            assert record["recall"] == {"10": 1.0, "50": 1.0}
        elif record["method"] == "lsh":
            method = METHODS["lsh"](n_bits=64, random_state=record["seed"]).fit(unlabelled.vectors[split.training])
            bits = [np.unpackbits(method.transform(part), axis=1).astype(int) for part in (queries, gallery)]
            found = np.argsort((bits[0][:, None] != bits[1]).sum(axis=2), axis=1, kind="stable")[:, :10]
            expected = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, near, strict=True)])
            assert record["recall"]["10"] == pytest.approx(expected)
            assert record["asymmetric"]["50"] > record["recall"]["50"] - 0.05
    best, *_, worst = summarise(records)
    assert best.name == "original"
    assert 0 < worst.scores[10].value < 1


def test_results_with_and_without_labels_are_different_cells(digits, unlabelled, tmp_path):
    for data in (digits, unlabelled, DataSet("digits", digits.vectors)):
        run(data, tmp_path / "r.json", ["lsh"], [16], seeds=[0])
    assert len(read_results(tmp_path / "r.json")) == 3


def test_results_need_no_file(unlabelled):
    results = ResultFile()
    records = evaluate(unlabelled, ["lsh"], [16], results, seeds=[0])
    assert results.records == records
    assert evaluate(unlabelled, ["lsh"], [16], results, seeds=[0])[0]["date"] == records[0]["date"]


def test_labels_that_are_all_unknown_are_refused(digits):
    with pytest.raises(ValueError, match=r"labels of v are all -1 \(unknown\)"):
        DataSet("v", digits.vectors, np.full(240, -1))


def test_labels_of_the_training_rows_go_to_methods_that_are_nothing_without_them(digits, tmp_path):
    (taught,) = run(digits, tmp_path / "r.json", ["lda+itq"], [32], seeds=[0])
    split = draw_split(240, 24, 144, 0)
    rows, y = digits.vectors, digits.labels
    method = METHODS["lda+itq"](32, random_state=0)
    for labels, same in ((y[split.training], True), (None, False)):
        codes = method.fit(rows[split.training], labels).transform(rows[split.gallery])
        ids = search(method, rows[split.queries], codes, 10)[1]
        found = precision_at_k(ids, y[split.gallery], y[split.queries], 10)
        assert (taught["precision"]["10"] == found) == same
