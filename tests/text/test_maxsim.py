"""Exact MaxSim against a literal double loop."""

import doctest
import importlib

import numpy as np
import pytest

from projbank.text import rerank
from tests.text.data import stacked, texts


def literal(query, document):
    return sum(max(float(np.dot(q, t)) for t in document.astype(float)) for q in query.astype(float))


@pytest.mark.parametrize("seed", [0, 1])
def test_every_score_is_maxsim_and_the_order_is_theirs(seed):
    documents, queries = texts((9, 1, 30, 4, 17, 2, 8), seed=seed), texts((3, 1, 6), seed=seed + 9)
    rng = np.random.default_rng(seed)
    shortlist = np.array([rng.choice(7, 5, replace=False) for _ in queries])
    scores, ids = rerank(shortlist, queries, documents)
    assert (scores.dtype, ids.dtype) == (np.float32, np.int64)
    for q, query in enumerate(queries):
        expected = sorted(((literal(query, documents[d]), d) for d in shortlist[q]), reverse=True)
        assert ids[q].tolist() == [d for _, d in expected]
        np.testing.assert_allclose(scores[q], [score for score, _ in expected], rtol=1e-5)
    for k in (1, 3):
        np.testing.assert_array_equal(rerank(shortlist, queries, documents, k)[1], ids[:, :k])


def test_lists_stacks_and_threads_agree():
    documents, queries = texts((9, 30, 4, 17)), texts((3, 5), seed=2)
    ids = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    one = rerank(ids, queries, documents, n_jobs=1)
    many = rerank(ids, stacked(queries), stacked(documents), n_jobs=3)
    np.testing.assert_array_equal(one[0], many[0])
    np.testing.assert_array_equal(one[1], many[1])


def test_ties_go_to_the_smaller_id_and_empty_places_come_last():
    documents = [np.eye(3), np.zeros((0, 3)), np.eye(3)]
    scores, ids = rerank([[2, 1, 0, -1]], [np.eye(3)[:2]], documents)
    assert ids[0, :2].tolist() == [0, 2]
    assert set(ids[0, 2:].tolist()) == {-1, 1}
    assert scores[0].tolist() == [2, 2, -np.inf, -np.inf]


def test_only_documents_of_the_shortlist_are_read():
    documents = [np.eye(3), np.full((2, 3), np.nan)]
    assert rerank([[0]], [np.eye(3)], documents)[1].tolist() == [[0]]
    with pytest.raises(ValueError, match=r"documents\[1\] contains NaN"):
        rerank([[0, 1]], [np.eye(3)], documents)


@pytest.mark.parametrize(
    ("ids", "k", "words"),
    [
        ([[0.5]], None, r"ids must be ints of shape \(n_queries, s\), with 1 queries"),
        ([0], None, "ids must be ints of shape"),
        ([[0], [1]], None, r"Got shape \(2, 1\)"),
        ([[2]], None, r"ids must be in the range \[-1, 1\], as there are documents. Got 2"),
        ([[-2]], None, "Got -2"),
        ([[0, 1]], 3, r"k must be None or an int in the range \[1, 2\], as ids are. Got 3"),
        ([[0, 1]], 0, "Got 0"),
    ],
)
def test_bad_arguments_are_named(ids, k, words):
    with pytest.raises(ValueError, match=words):
        rerank(ids, [np.eye(3)], [np.eye(3), np.eye(3)], k)


def test_queries_and_documents_must_be_of_one_width():
    with pytest.raises(ValueError, match=r"documents\[0\] must have 3 columns. Got 4"):
        rerank([[0]], [np.eye(3)], [np.eye(4)])


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("projbank.text.maxsim")).failed == 0
