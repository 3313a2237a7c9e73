"""Drift: the rate of false alarms, alarms where there should be some, and what they cost."""

import numpy as np
import pytest

from projbank import ProjectionBank, check, load
from projbank.bits import unpack
from projbank.models.reference import Reference
from projbank.rows.source import as_rows
from projbank.upkeep.drift import check_drift, compare


def skewed(n, seed, shift=0.0):
    """Rows of a few unequal clusters with heavy tails."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((6, 80))
    y = rng.choice(6, n, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    return (centres[y] + shift + rng.standard_t(3, (n, 80))).astype(np.float32)


@pytest.fixture(scope="module")
def bank():
    return ProjectionBank(40, solver="mixed", max_iter=3, n_jobs=1).fit(skewed(500, 0), set_aside=150)


def test_false_alarms_are_as_many_as_said(bank):
    """Half of a large sample against the other half, so that data, not only splits, are drawn anew."""
    alarms = 0
    for i in range(150):
        rows = as_rows(skewed(90, [1, i]))
        old, new = Reference.of(bank, rows, np.arange(50)), Reference.of(bank, rows, np.arange(50, 90))
        alarms += compare(old, new, 40, level=0.1, seed=i).alarm
    assert 2 <= alarms <= 31  # 15 of a binomial of deviation 3.7


def test_what_was_set_aside_is_like_new_rows_and_what_was_learnt_is_kept_out(bank):
    assert len(bank.reference_) == 150
    assert not check_drift(bank, as_rows(skewed(150, 7))).alarm
    learnt = skewed(500, 0)
    with pytest.raises(ValueError, match="not learnt from"):
        check_drift(bank, as_rows(skewed(150, 7)), reference=learnt)
    assert check_drift(bank, as_rows(skewed(150, 7, 1.0)), reference=skewed(100, 8)).alarm


def test_alarms_where_rows_differ(bank):
    assert check_drift(bank, as_rows(skewed(60, 3, 1.0))).alarm
    sure = check_drift(bank, as_rows(0.2 * skewed(60, 4)))
    assert sure.alarm
    assert sure.certainty > 0.1  # small rows, small margins


def test_energy_and_certainty_are_those_of_the_definitions(bank):
    old, new = bank.reference_, Reference.of(bank, as_rows(skewed(33, 5)), np.arange(33))
    found = compare(old, new, 40)
    a, b = unpack(old.codes, 40), unpack(new.codes, 40)

    def mean(x, y):
        return np.mean([[np.sqrt(np.mean(p != q)) for q in y] for p in x])

    assert found.distance == pytest.approx(2 * mean(a, b) - mean(a, a) - mean(b, b), abs=1e-5)
    less = np.mean([[(n < o) + (n == o) / 2 for n in new.certainty] for o in old.certainty])
    assert found.certainty == pytest.approx(less - 0.5, abs=1e-5)


def test_harm_is_a_loss_of_recall():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (256, 5)).astype(np.uint8)
    certainty = rng.standard_normal(256).astype(np.float32)
    recall = rng.binomial(10, 0.6, 256).astype(np.float32) / 10
    old = Reference(codes, certainty, recall)
    assert compare(old, Reference(codes, certainty - 3, recall), 40).verdict == "small"
    harmed = compare(old, Reference(codes, certainty - 3, recall - 0.3), 40)
    assert harmed.verdict == "harmful"
    assert harmed.cost.value == pytest.approx(0.3, abs=1e-6)
    assert harmed.cost.low < 0.3 < harmed.cost.high
    assert compare(old, Reference(codes, certainty, recall - 0.3), 40).verdict == "none"  # no alarm, no verdict
    unknown = compare(old, Reference(codes[:30], certainty[:30] - 3, np.full(30, np.nan, np.float32)), 40)
    assert (unknown.cost, unknown.verdict) == (None, "small")


def test_recall_is_that_among_groups_of_rows(bank):
    rows = skewed(128, 6)
    found = Reference.of(bank, as_rows(rows), np.arange(128))
    floats = ((rows[:, None].astype(np.float64) - rows) ** 2).sum(axis=2)
    bits = unpack(found.codes, 40)
    hamming = (bits[:, None] != bits).sum(axis=2).astype(float)
    for distances in (floats, hamming):
        np.fill_diagonal(distances, np.inf)
    true, near = (np.argsort(one, axis=1, kind="stable")[:, :10] for one in (floats, hamming))
    order = np.random.default_rng(128)
    order.permutation(128)
    expected = [np.isin(a, b).mean() for a, b in zip(true, near, strict=True)]
    assert abs(found.recall.mean() - np.mean(expected)) < 0.03  # ties go by the order in which rows were drawn


def test_the_reference_stands_in_the_file(bank, tmp_path):
    bank.save(tmp_path / "b.safetensors")
    again = load(tmp_path / "b.safetensors")
    for one, other in zip(bank.reference_.arrays, again.reference_.arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    new = as_rows(skewed(60, 9))
    assert check_drift(again, new) == check_drift(bank, new)
    found = check(tmp_path / "b.safetensors", skewed(200, 10), new=skewed(60, 9), n_queries=20)
    assert found.drift.words in found.advice
    assert "drift of 60 new vectors, against 150" in str(found)


def test_errors_name_the_argument(bank):
    with pytest.raises(ValueError, match="set_aside"):
        check_drift(ProjectionBank(8, solver="random").fit(skewed(50, 0)), as_rows(skewed(50, 1)))
    with pytest.raises(ValueError, match="at least 20"):
        check_drift(bank, as_rows(skewed(5, 0)))
    with pytest.raises(ValueError, match="80 dimensions"):
        check_drift(bank, as_rows(skewed(50, 0)[:, :70]))
    with pytest.raises(ValueError, match="set_aside must leave 2"):
        ProjectionBank(8, solver="random").fit(skewed(50, 0), set_aside=49)
    with pytest.raises(ValueError, match="set_aside"):
        ProjectionBank(8, solver="random").fit(skewed(50, 0), set_aside=-1)


@pytest.mark.parametrize("solver", ["joint", "paper", "random"])
def test_any_solver_sets_rows_aside(solver):
    settings = {"solver": solver, "n_neighbors": 5, "max_iter": 2, "grouping": "random"}
    X = skewed(60, 0)
    bank = ProjectionBank(16, **settings).fit(X, set_aside=25)
    assert len(bank.reference_) == 25
    assert len(bank.reference_.learnt) == 35


def test_rows_that_the_learner_does_not_draw_are_kept():
    bank = ProjectionBank(16, solver="mixed", train_size=60, max_iter=1).fit(skewed(150, 0))
    assert len(bank.reference_) == 90
    assert len(bank.reference_.learnt) == 60
