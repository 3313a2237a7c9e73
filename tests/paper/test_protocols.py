"""Each protocol against what it should measure, on digits."""

import io
import re
import sys

import numpy as np
import pytest
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from projbank.bits import unpack
from projbank.evaluate.data import DataSet, draw_split
from projbank.evaluate.results import ResultFile, read_results
from projbank.evaluate.retrieval import Retrieval
from projbank.evaluate.runner import Experiment, Rules, run
from projbank.learn.neighbors import nearest_neighbors, positive_pairs
from projbank.methods import METHODS
from projbank.metrics import mean_average_precision, pair_error, precision_at_k, precision_recall
from projbank.paper import causes
from projbank.paper.action import Action, as_features, compact
from projbank.paper.protocols import Cost, PairError, PrecisionRecallCurves
from projbank.paper.tuned import GRIDS, Tuned
from projbank.rows.source import as_rows
from tests.methods.data import digit_products


@pytest.fixture(scope="module")
def digits():
    X, y = digit_products(200)
    return DataSet("digits", X[:, ::4].copy(), y)


def measured(experiment):
    assert run([experiment], Rules()) == 0
    return experiment.records()


def test_curves_are_those_of_the_whole_ranking(digits, tmp_path):
    cells = [("original", None, {}), ("lsh", 32, {})]
    records = measured(
        PrecisionRecallCurves(digits, cells, ResultFile(tmp_path / "r.json"), seeds=[3], n_queries=20, n_train=100)
    )
    split = draw_split(200, 20, 100, 3)
    queries, gallery = digits.vectors[split.queries], digits.vectors[split.gallery]
    method = METHODS["lsh"](n_bits=32, random_state=3).fit(digits.vectors[split.training])
    bits = [unpack(method.transform(part), 32) for part in (queries, gallery)]
    distances = [((queries[:, None] - gallery) ** 2).sum(axis=2), (bits[0][:, None] != bits[1]).sum(axis=2)]
    for record, distance in zip(records, distances, strict=True):
        ids = np.argsort(distance, axis=1, kind="stable")
        curve = precision_recall(ids, digits.labels[split.gallery], digits.labels[split.queries])
        assert record["area"] == pytest.approx(curve.area, abs=2e-3)
        assert record["ranks"][-1] == 180
        assert record["recall"][-1] == 1
        np.testing.assert_allclose(record["precision"], curve.precision[np.array(record["ranks"]) - 1], atol=0.02)


def test_pair_errors_are_those_of_the_training_vectors(digits, tmp_path):
    settings = {"max_iter": 3, "n_neighbors": 5}
    cells = [("original", None, {}), ("bpb", 16, settings)]
    records = measured(PairError(digits, cells, ResultFile(tmp_path / "r.json"), seeds=[1], n_queries=20, n_train=60))
    split = draw_split(200, 20, 60, 1)
    X = digits.vectors[split.training]
    graph = positive_pairs(nearest_neighbors(as_rows(X), 59, X.mean(axis=0)))  # 100 neighbours, lowered
    bank = METHODS["bpb"](n_bits=16, random_state=1, **settings).fit(X)
    assert records[1]["pair_error"] == pytest.approx(pair_error(bank.decision_function(X) > 0, graph))
    whole = METHODS["bpb"](n_bits=1, random_state=1).fit(X)
    assert records[0]["pair_error"] == pytest.approx(pair_error(whole.decision_function(X) > 0, graph))
    assert records[0]["positive_share"] == graph.nnz / 60**2


@pytest.mark.parametrize("method", ["original", "lsh", "pca", "pq"])
def test_accuracy_is_that_of_a_linear_svm(digits, tmp_path, method):
    folds = [(np.arange(150), np.arange(150, 200)), (np.arange(50, 200), np.arange(50))]
    cells = [(method, None if method == "original" else 64, {})]
    (record,) = measured(Action(digits, cells, ResultFile(tmp_path / "r.json"), seeds=[0], folds=folds))
    expected = []
    for train, test in folds:
        rows = digits.vectors
        if method != "original":
            coder = METHODS[method](n_bits=64, random_state=0).fit(digits.vectors[train])
            codes = coder.transform(digits.vectors)
            rows = 2.0 * unpack(codes, 64) - 1 if method == "lsh" else as_features(coder, codes)
        rows = normalize(rows)
        machine = LinearSVC(C=100, random_state=0, max_iter=5000, dual=True).fit(rows[train], digits.labels[train])
        expected.append(100 * machine.score(rows[test], digits.labels[test]))
    assert record["accuracies"] == pytest.approx(expected, abs=2.01)  # one of 50: ties may fall either way
    assert record["protocol"]["folds"] == "2 given"


def test_compact_rows_have_the_same_inner_products():
    rows = np.random.default_rng(0).standard_normal((7, 300)).astype(np.float32)
    rows[3] = rows[5]
    rows[6] = 0
    small = compact(rows)
    assert small.shape == (7, 5)
    np.testing.assert_allclose(small @ small.T, rows.astype(np.float64) @ rows.T, atol=1e-4)
    np.testing.assert_array_equal(compact(rows[:, :7]), rows[:, :7])


def test_product_codes_become_their_centres(digits):
    coder = METHODS["pq"](n_bits=64, random_state=0).fit(digits.vectors)
    codes = coder.transform(digits.vectors[:9])
    parts = np.split(unpack(codes, coder.n_bits_), len(coder.centroids_), axis=1)
    numbers = [part @ (1 << np.arange(part.shape[1])) for part in parts]
    centres = np.concatenate([c[i] for c, i in zip(coder.centroids_, numbers, strict=True)], axis=1)
    np.testing.assert_array_equal(coder.decode(codes), centres)
    rabitq = METHODS["rabitq"](n_bits=64).fit(digits.vectors)
    codes = rabitq.transform(digits.vectors[:2])
    with pytest.raises(ValueError, match="codes of RaBitQ can only be compared"):
        as_features(rabitq, codes)


def test_folds_are_drawn_where_none_are_given(digits, tmp_path):
    (record,) = measured(Action(digits, [("sign", None, {})], ResultFile(tmp_path / "r.json"), seeds=[0]))
    assert len(record["accuracies"]) == 5
    assert record["accuracy"] == pytest.approx(np.mean(record["accuracies"]))
    assert record["accuracy"] > 50


def test_cost_is_counted_on_one_thread(digits, tmp_path):
    (record,) = measured(Cost(digits, [("lsh", 64, {})], ResultFile(tmp_path / "r.json"), seeds=[0], n_train=50))
    assert record["code_bytes"] == 8
    assert record["model_bytes"] == METHODS["lsh"](n_bits=64).fit(digits.vectors).model_bytes
    assert 0 < record["coding_seconds"] < record["seconds"]
    assert record["protocol"] == {"experiment": "cost", "coded": 100, "training": 50, "coding_threads": 1}


class Counted(Experiment):
    name, headline = "counted", "found"

    def __init__(self, path, seconds=0.0, **borrow):
        key = {"dataset": {"name": "d"}, "protocol": {}, "n_bits": 8, "params": {}}
        plan = [key | {"method": m, "seed": s} for s in (0, 1) for m in "ab"]
        super().__init__(plan, ResultFile(path, **borrow))
        self.calls = []

    def measure(self, key):
        self.calls.append((key["method"], key["seed"]))
        return {"found": 1}

    def close(self):
        self.closed = True


def test_files_lend_each_other_their_cells(tmp_path):
    first = Counted(tmp_path / "a.json")
    second = Counted(tmp_path / "b.json", borrow=[first.results])
    run([first, second], Rules())
    assert second.calls == []
    assert first.closed
    assert len(second.records()) == 4
    assert not (tmp_path / "b.json").exists()


def test_old_cells_are_measured_again_on_demand(tmp_path):
    run([Counted(tmp_path / "a.json")], Rules())
    again = Counted(tmp_path / "a.json")
    run([again], Rules(since="2020-01-01T00:00:00+00:00"))
    assert again.calls == []
    run([again], Rules(since="2200-01-01T00:00:00+00:00"))
    assert len(again.calls) == 4
    assert len(read_results(tmp_path / "a.json")) == 4


def test_progress_is_over_the_whole_plan_and_on_terminals_only(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    first = Counted(tmp_path / "a.json")
    run([first], Rules())
    for stream, verbose in ((io.StringIO(), 1), (Terminal(), 0)):
        monkeypatch.setattr(sys, "stderr", stream)
        run([first, Counted(tmp_path / "b.json")], Rules(since="2200-01-01T00:00:00+00:00"), verbose)
        assert stream.getvalue() == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "150")
    second = Counted(tmp_path / "c.json")
    run([first, second], Rules(), 1)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "8/8" in text
    assert "left" in text


def test_the_whole_ranking_is_judged_where_it_is_asked_for(digits, tmp_path):
    cells, sizes = [("original", None, {}), ("lsh", 32, {})], {"n_queries": 20, "n_train": 100, "ks": [10]}
    plain = Retrieval(digits, cells, ResultFile(tmp_path / "r.json"), seeds=[3], **sizes)
    assert not any("map" in record for record in measured(plain))
    records = measured(Retrieval(digits, cells, ResultFile(tmp_path / "s.json"), seeds=[3], whole=True, **sizes))
    split = draw_split(200, 20, 100, 3)
    method = METHODS["lsh"](n_bits=32, random_state=3).fit(digits.vectors[split.training])
    bits = [unpack(method.transform(digits.vectors[ids]), 32) for ids in (split.queries, split.gallery)]
    distances = (bits[0][:, None] != bits[1]).sum(axis=2)
    ids = np.argsort(distances, axis=1, kind="stable")
    ranked = np.take_along_axis(distances, ids, axis=1)
    expected = mean_average_precision(ids, digits.labels[split.gallery], digits.labels[split.queries], ranked)
    assert records[1]["map"] == pytest.approx(expected)
    assert 0 < records[0]["area"] < 1


def test_parameters_are_chosen_among_held_out_vectors_of_the_gallery(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(GRIDS, "bpb", {"lam": (0.01, 1.0), "tol": (1e-6, 1e-2)})
    cells = [("bpb", n, {"max_iter": 3, "n_neighbors": 5}) for n in (32, 16)]
    results = ResultFile(tmp_path / "r.json")
    settings = {"seeds": [2], "n_queries": 20, "n_train": 90, "ks": [10]}
    records = measured(Tuned(digits, cells, results, **settings))
    points = [r for r in results.records if r["protocol"]["experiment"] == "held-out"]
    assert [r["n_bits"] for r in points] == [16] * 3  # no point twice
    split = draw_split(200, 20, 90, 2)
    held_out = np.setdiff1d(split.gallery, split.training)
    for point in points:
        bank = METHODS["bpb"](16, random_state=2, **point["params"]).fit(digits.vectors[split.training])
        bits = unpack(bank.transform(digits.vectors[held_out]), 16)
        distances = (bits[:, None] != bits).sum(axis=2) * 200 + np.arange(len(bits))
        np.fill_diagonal(distances, 10**6)
        labels = digits.labels[held_out]
        expected = precision_at_k(np.argsort(distances, axis=1)[:, :50], labels, labels, 50)
        assert point["score"] == pytest.approx(expected, abs=0.02)  # of those at the 50th distance any may count
    best = METHODS["bpb"]().get_params() | max(points, key=lambda r: r["score"])["params"]
    best = {word: best[word] for word in ("max_iter", "n_neighbors", "lam", "tol")}
    assert [r["chosen"] for r in records] == [{word: best[word] for word in ("lam", "tol")}] * 2
    bank = METHODS["bpb"](32, random_state=2, **best).fit(digits.vectors[split.training])
    codes = [unpack(bank.transform(digits.vectors[ids]), 32) for ids in (split.queries, split.gallery)]
    order = np.argsort((codes[0][:, None] != codes[1]).sum(axis=2), axis=1, kind="stable")
    expected = precision_at_k(order, digits.labels[split.gallery], digits.labels[split.queries], 10)
    assert records[0]["precision"]["10"] == pytest.approx(expected)


def test_causes_change_one_thing_at_a_time(digits, tmp_path):
    given = {"max_iter": 2}
    plan = causes.cells([16], 80, given)
    names = [(method, tuple(params)) for method, _, params in plan]
    assert names.count(("bpb", ("max_iter", "grouping", "weights"))) == 9
    experiment = causes.Causes(digits, plan, ResultFile(tmp_path / "r.json"), seeds=[1], n_queries=20, n_train=80)
    records = {(r["method"], *map(str, r["params"].values())): r["precision"]["50"] for r in measured(experiment)}
    assert len(records) == len(plan)
    plain = METHODS["bpb"](16, random_state=1, **given)
    split = draw_split(200, 20, 80, 1)
    bits = [unpack(plain.fit(digits.vectors[split.training]).transform(digits.vectors[i]), 16) for i in split[:2]]
    order = np.argsort((bits[0][:, None] != bits[1]).sum(axis=2), axis=1, kind="stable")
    expected = precision_at_k(order, digits.labels[split.gallery], digits.labels[split.queries], 50)
    assert records["bpb", "2", "kmeans", "learnt"] == pytest.approx(expected)
    gaussian, floats = records["bpb", "2", "random", "gaussian"], records["original",]
    assert 0.1 < gaussian < floats


def test_a_bit_of_an_axis_parallel_projection_sees_one_dimension():
    labels, weights = causes.axes(50, 20, np.random.default_rng(0))
    assert np.count_nonzero(weights) == 20
    assert sorted(labels[weights > 0]) == list(range(20))
