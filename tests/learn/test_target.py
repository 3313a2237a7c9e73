import numpy as np
import pytest

from projbank.learn import target
from projbank.learn.target import (
    SimilarityTarget,
    closed_share,
    exact_neighbors,
    graded_walk,
    near_enough,
    product,
    standardise,
    symmetric_product,
)
from projbank.rows.source import as_rows
from projbank.rows.views import FoldedRows


def literal_target(X, k):
    """Cosine and two steps on the graph of graded neighbours, pair by pair, in double precision."""
    n = len(X)
    centered = X.astype(float) - X.astype(float).mean(axis=0)
    unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    cosine = unit @ unit.T
    weight = np.zeros((n, n))
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for rank, j in enumerate(sorted(others, key=lambda j: -cosine[i, j])[:k]):
            weight[i, j] = np.exp(-6 * rank / k)
    weight = (weight + weight.T) / 2 + np.eye(n)
    degrees = weight.sum(axis=1)
    walk = weight / np.sqrt(np.outer(degrees, degrees))
    pairs = ~np.eye(n, dtype=bool)
    parts = [(part - part[pairs].mean()) / part[pairs].std() for part in (cosine, walk @ walk)]
    mixed = 0.1 * parts[0] + 0.9 * parts[1]
    mixed = (mixed - mixed[pairs].mean()) / mixed[pairs].std()
    return np.where(pairs, mixed, 0)


@pytest.mark.parametrize(("n", "k"), [(40, 5), (61, 60), (3, 1)])
def test_agrees_with_the_literal_target(n, k):
    X = np.random.default_rng(n).standard_normal((n, 12)).astype(np.float32) + 2
    expected = literal_target(X, k)
    result = SimilarityTarget(as_rows(X), X.mean(axis=0, dtype=np.float64), k).of(np.arange(n), X)
    np.testing.assert_allclose(result, expected, atol=2e-4)


def test_a_part_of_the_vectors_has_the_target_of_the_part(monkeypatch):
    X = np.random.default_rng(0).standard_normal((80, 9)).astype(np.float32)
    ids = np.arange(3, 80, 5)
    means = X.mean(axis=0, dtype=np.float64)
    kept = SimilarityTarget(as_rows(X), means, 10).of(ids, X[ids])
    np.testing.assert_allclose(kept, standardise(literal_target(X, 10)[np.ix_(ids, ids)].astype(np.float32)), atol=1e-4)
    monkeypatch.setattr(target, "KEPT", 10)
    anew = SimilarityTarget(as_rows(X), means, 10).of(ids, X[ids])
    pairs = ~np.eye(len(ids), dtype=bool)
    assert np.corrcoef(anew[pairs], kept[pairs])[0, 1] > 0.97  # each part is standardised over fewer pairs
    assert abs(anew[pairs].mean()) < 1e-5
    assert anew[pairs].std() == pytest.approx(1, abs=1e-4)


def test_the_walk_is_symmetric_and_keeps_the_roots_of_degrees():
    ids = np.array([[1, 2], [0, 2], [3, 1], [2, 0]])
    walk = graded_walk(ids).toarray()
    np.testing.assert_allclose(walk, walk.T, rtol=1e-6)
    values, vectors = np.linalg.eigh(walk.astype(float))
    assert values[-1] == pytest.approx(1, abs=1e-6)  # a step neither makes nor loses anything
    assert (np.sign(vectors[:, -1]) == np.sign(vectors[0, -1])).all()


def test_equal_vectors_give_no_nan():
    X = np.ones((5, 4), np.float32)
    assert np.isfinite(SimilarityTarget(as_rows(X), X.mean(axis=0, dtype=np.float64), 2).of(np.arange(5), X)).all()


@pytest.mark.parametrize("n", [1, 127, 300])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_products(n, n_threads):
    rng = np.random.default_rng(n)
    A, B = rng.standard_normal((n, 33)).astype(np.float32), rng.standard_normal((33, 21)).astype(np.float32)
    np.testing.assert_allclose(symmetric_product(A, n_threads), A @ A.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(product(A, B, n_threads), A @ B, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(symmetric_product(A, n_threads), symmetric_product(A, 2))


def test_long_vectors_are_folded(monkeypatch):
    X = np.random.default_rng(6).standard_normal((60, 50)).astype(np.float32) + 1
    means = X.mean(axis=0, dtype=np.float64)
    rows = FoldedRows(as_rows(X), 20)
    ids = np.arange(60)
    expected = SimilarityTarget(as_rows(rows.block(0, 60)), rows.fold(means), 7)
    exact = SimilarityTarget(as_rows(X), means, 7)
    monkeypatch.setattr(target, "DIMENSIONS", 20)
    found = SimilarityTarget(as_rows(X), means, 7)
    np.testing.assert_array_equal(found.of(ids, X), expected.of(ids, None))
    np.testing.assert_array_equal(found.cosines(ids, X), expected.cosines(ids, None))
    assert (found.of(ids, X) != exact.of(ids, X)).any()


@pytest.mark.parametrize(("size", "kept"), [(12, 15), (200, 30)])
def test_neighbours_that_lead_out_of_small_clusters_are_left_out(size, kept):
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((1200 // size, 40))
    rows = (np.repeat(centers, size, axis=0) + 0.6 * rng.standard_normal((1200, 40))).astype(np.float32)
    ids = exact_neighbors(as_rows(rows), 60)
    near = near_enough(ids)
    np.testing.assert_array_equal(near, ids[:, :kept])


def test_share_of_two_steps_that_end_at_a_neighbour():
    ids = np.random.default_rng(1).permuted(np.tile(np.arange(30), (30, 1)), axis=1)[:, :4]
    steps = [(i, ids[j]) for i in range(30) for j in ids[i]]
    expected = np.mean([np.isin(ends, ids[i]).mean() for i, ends in steps])
    assert closed_share(ids) == pytest.approx(expected)
