"""Metrics against scikit-learn and against loops that follow the definition."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import auc, average_precision_score, precision_recall_curve

from projbank import metrics


@pytest.fixture(params=[0, 1, 2])
def case(request):
    """A whole ranking of 60 items in 4 classes for 9 queries, by distances with many ties."""
    rng = np.random.default_rng(request.param)
    gallery, queries = rng.integers(0, 4, 60), rng.integers(0, 4, 9)
    distances = rng.integers(0, 12, (9, 60))
    ids = np.argsort(distances, axis=1, kind="stable")
    return ids, gallery, queries, np.take_along_axis(distances, ids, axis=1)


@pytest.fixture(params=[1, 1 << 22])
def any_block_size(request, monkeypatch):
    monkeypatch.setattr(metrics, "CELLS_PER_BLOCK", request.param)


@pytest.mark.usefixtures("any_block_size")
@pytest.mark.parametrize("k", [1, 7, 60])
def test_precision_at_k_equals_a_loop(case, k):
    ids, gallery, queries, _ = case
    expected = np.mean(
        [np.mean([gallery[i] == label for i in row[:k]]) for row, label in zip(ids, queries, strict=True)]
    )
    assert metrics.precision_at_k(ids, gallery, queries, k) == pytest.approx(expected)


def test_labels_may_be_strings():
    assert metrics.precision_at_k([[0, 1]], ["cat", "dog"], ["cat"], 2) == 0.5
    assert metrics.mean_average_precision([[1, 0]], ["cat", "dog"], ["cat"]) == 0.5


def test_precision_recall_equals_scikit_learn_for_one_query(case):
    ids, gallery, queries, _ = case
    curve = metrics.precision_recall(ids[:1], gallery, queries[:1])
    relevant = gallery[ids[0]] == queries[0]
    precision, recall, _ = precision_recall_curve(relevant, -np.arange(60), drop_intermediate=False)
    np.testing.assert_allclose(curve.precision, precision[:-1][::-1])
    np.testing.assert_allclose(curve.recall, recall[:-1][::-1])
    corners = np.concatenate([[0], curve.recall]), np.concatenate([curve.precision[:1], curve.precision])
    assert curve.area == pytest.approx(auc(*corners))


@pytest.mark.usefixtures("any_block_size")
def test_precision_recall_is_the_mean_of_its_queries(case):
    ids, gallery, queries, _ = case
    curve = metrics.precision_recall(ids, gallery, queries)
    single = [metrics.precision_recall(ids[i : i + 1], gallery, queries[i : i + 1]) for i in range(9)]
    np.testing.assert_allclose(curve.precision, np.mean([one.precision for one in single], axis=0))
    np.testing.assert_allclose(curve.recall, np.mean([one.recall for one in single], axis=0))
    assert curve.recall[-1] == pytest.approx(1)


@pytest.mark.usefixtures("any_block_size")
def test_map_with_ties_equals_scikit_learn(case):
    ids, gallery, queries, distances = case
    expected = np.mean(
        [average_precision_score(gallery[i] == q, -d) for i, q, d in zip(ids, queries, distances, strict=True)]
    )
    assert metrics.mean_average_precision(ids, gallery, queries, distances) == pytest.approx(expected)
    assert metrics.mean_average_precision(ids, gallery, queries, -distances) == pytest.approx(expected)


def test_map_without_distances_takes_the_order_as_it_is(case):
    ids, gallery, queries, _ = case
    expected = np.mean(
        [average_precision_score(gallery[i] == q, -np.arange(60)) for i, q in zip(ids, queries, strict=True)]
    )
    assert metrics.mean_average_precision(ids, gallery, queries) == pytest.approx(expected)


def test_map_does_not_depend_on_the_order_inside_ties(case):
    ids, gallery, queries, distances = case
    other = ids.copy()
    for row, values in zip(other, distances, strict=True):
        for value in np.unique(values):
            row[values == value] = row[values == value][::-1]
    assert not np.array_equal(ids, other)
    found = [metrics.mean_average_precision(order, gallery, queries, distances) for order in (ids, other)]
    assert found[0] == pytest.approx(found[1])


def test_a_shortened_ranking_counts_what_it_misses_as_zero():
    assert metrics.mean_average_precision([[0]], [1, 1], [1]) == 0.5
    assert metrics.precision_recall([[0]], [1, 1], [1]).recall.tolist() == [0.5]


def test_queries_without_a_relevant_item_are_left_out():
    ids, gallery = [[0, 1], [0, 1]], [1, 2]
    assert metrics.mean_average_precision(ids, gallery, [1, 9]) == 1.0
    assert metrics.precision_recall(ids, gallery, [1, 9]).precision.tolist() == [1.0, 0.5]
    with pytest.raises(ValueError, match="none that occurs"):
        metrics.mean_average_precision(ids, gallery, [8, 9])


def test_neighbor_recall_equals_sets():
    rng = np.random.default_rng(0)
    found = np.array([rng.permutation(30)[:10] for _ in range(8)])
    true = np.array([rng.permutation(30)[:5] for _ in range(8)])
    expected = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.tolist(), true.tolist(), strict=True)])
    assert metrics.neighbor_recall(found, true) == pytest.approx(expected)
    assert metrics.neighbor_recall(true, true) == 1


@pytest.mark.parametrize("k", [1, 3, 5])
def test_recall_at_k_counts_the_first_k_of_both(k):
    rng = np.random.default_rng(1)
    found, true = (np.array([rng.permutation(12)[:n] for _ in range(8)]) for n in (7, 5))
    expected = np.mean([len(set(a[:k]) & set(b[:k])) / k for a, b in zip(found.tolist(), true.tolist(), strict=True)])
    assert metrics.recall_at_k(found, true, k) == pytest.approx(expected)
    assert metrics.recall_at_k(true, true, k) == 1


@pytest.mark.parametrize(("n", "d", "seed"), [(1, 1, 0), (17, 3, 1), (40, 130, 2)])
def test_pair_error_counts_every_ordered_pair(n, d, seed):
    rng = np.random.default_rng(seed)
    bits = rng.random((n, d)) < rng.random(d)
    graph = rng.random((n, n)) < 0.2
    graph = graph | graph.T | np.eye(n, dtype=bool)
    labels = np.where(graph, 1, -1)
    signs = np.where(bits, 1, -1)
    expected = [
        sum(signs[i, p] * signs[j, p] != labels[i, j] for i in range(n) for j in range(n)) / n**2 for p in range(d)
    ]
    positive = sp.csr_array(graph.astype(np.float32) * 0.5)
    np.testing.assert_allclose(metrics.pair_errors(bits, positive), expected, rtol=0, atol=1e-15)
    assert metrics.pair_error(bits, positive) == pytest.approx(np.mean(expected))
    assert metrics.pair_error(bits.astype(np.uint8), sp.coo_matrix(positive)) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.precision_at_k([[0, 1]], [1, 2], [1], 3), "'k' parameter of precision_at_k.*Got 3"),
        (lambda: metrics.precision_at_k([0, 1], [1, 2], [1], 1), "ids must be whole numbers"),
        (lambda: metrics.precision_at_k([[0, 2]], [1, 2], [1], 1), r"range \[0, 1\]. Got 0 to 2"),
        (lambda: metrics.precision_at_k([[-1, 1]], [1, 2], [1], 1), "Got -1 to 1"),
        (lambda: metrics.precision_recall([[0, 1]], [1, 2], [1, 2]), "query_labels must have shape"),
        (lambda: metrics.precision_recall([[0, 1]], [[1, 2]], [1]), "gallery_labels must be 1-D"),
        (lambda: metrics.mean_average_precision([[0, 1]], [1, 2], [1], [[1]]), "distances must have the shape"),
        (lambda: metrics.mean_average_precision([[0, 1, 1]], [1, 2], [1], [[1, 3, 2]]), "in order along each row"),
        (lambda: metrics.neighbor_recall([[1]], [[1], [2]]), "a row per query"),
        (lambda: metrics.recall_at_k([[1, 2]], [[1, 2, 3]], 3), "'k' parameter of recall_at_k.*Got 3"),
        (lambda: metrics.recall_at_k([1, 2], [[1, 2]], 1), "a row per query"),
        (lambda: metrics.pair_error([[2, 0]], sp.eye_array(1)), "bits must be truth values"),
        (lambda: metrics.pair_error([[True], [False]], np.eye(2)), "must be scipy.sparse"),
        (lambda: metrics.pair_error([[True], [False]], sp.csr_array((2, 2))), "include the diagonal"),
        (lambda: metrics.pair_error([[1], [0]], sp.csr_array([[1, 1], [0, 1]])), "symmetric"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
