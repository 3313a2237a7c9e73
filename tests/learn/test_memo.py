"""Recalled results: the same bits as without, each computed once, never for other vectors."""

import time
from unittest.mock import Mock

import numpy as np
import pytest

from projbank.learn import grouping, neighbors
from projbank.learn.run import Memo, remembered
from projbank.methods import METHODS
from projbank.rows.source import as_rows

SHARING = ("bpb", "kbpb-rbf", "kbpb-poly", "randst+bpb", "sign-select")

X = np.random.default_rng(5).standard_normal((60, 41), dtype=np.float32)
X[:2] = 0


@pytest.fixture
def calls(monkeypatch):
    """How often groups and neighbours were computed since the last look."""
    costly = [Mock(wraps=grouping.sketch_dimensions), Mock(wraps=neighbors.nearest_neighbors)]
    monkeypatch.setattr(grouping, "sketch_dimensions", costly[0])
    monkeypatch.setattr(neighbors, "nearest_neighbors", costly[1])

    def look():
        counts = [part.call_count for part in costly]
        for part in costly:
            part.reset_mock()
        return counts

    return look


def fitted(name, X=X, n_bits=7, seed=3, n_jobs=1):
    basis = {"n_basis": 40} if name.startswith("kbpb") else {}
    return METHODS[name](n_bits=n_bits, n_neighbors=10, random_state=seed, n_jobs=n_jobs, **basis).fit(X)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_same_codes_computed_once(calls, n_jobs):
    alone = {name: fitted(name).transform(X) for name in SHARING}
    calls()
    memo = Memo(X)
    for name in SHARING:
        with memo.use():
            np.testing.assert_array_equal(fitted(name, n_jobs=n_jobs).transform(X), alone[name])
    assert calls() == [1, 1]


def test_other_arguments_are_other_results(calls):
    memo = Memo(X)
    for n_bits, seed in [(7, 3), (8, 3), (7, 4), (8, 3)]:
        with memo.use():
            np.testing.assert_array_equal(
                fitted("bpb", X, n_bits, seed).labels_, fitted("bpb", X.copy(), n_bits, seed).labels_
            )
    assert calls() == [3 + 4, 1 + 4]


def test_other_vectors_are_not_mistaken():
    other = X[::-1].copy()
    with Memo(X).use():
        fitted("bpb")
        found = fitted("bpb", other).transform(X)
        part = fitted("bpb", X[:30]).transform(X)
    np.testing.assert_array_equal(found, fitted("bpb", other).transform(X))
    np.testing.assert_array_equal(part, fitted("bpb", X[:30].copy()).transform(X))


def test_nothing_is_remembered_outside(calls):
    with Memo(X).use():
        fitted("bpb")
    fitted("bpb")
    assert calls() == [2, 2]


def test_failure_is_not_remembered():
    memo = Memo(X)
    with memo.use(), pytest.raises(ValueError, match="grouping"):
        METHODS["bpb"](n_bits=7, n_neighbors=10, grouping=np.zeros(41, int)).fit(X)
    with memo.use():
        assert fitted("bpb").n_bits_ == 7


def test_generator_goes_on_as_if_computed():
    @remembered
    def draw(rows, rng):
        return rng.standard_normal(3)

    memo, first, second = Memo(X), np.random.default_rng(1), np.random.default_rng(1)
    with memo.use():
        assert draw(as_rows(X), first) is draw(as_rows(X), second)
    assert first.integers(1 << 40) == second.integers(1 << 40)


def test_spared_is_what_the_recalled_results_took():
    @remembered
    def slow(rows, k):
        time.sleep(0.02)
        return k

    memo = Memo(X)
    with memo.use():
        slow(as_rows(X), 1)
        assert memo.spared == 0
        slow(as_rows(X), 1)
        slow(as_rows(X), k=1)
    assert memo.spared >= 0.04
    with memo.use():
        assert memo.spared == 0
