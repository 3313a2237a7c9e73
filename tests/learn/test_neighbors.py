import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from projbank.learn import neighbors
from projbank.learn.neighbors import centered_rows, nearest_neighbors, positive_pairs
from projbank.rows.source import as_rows
from tests.reference.paper import pseudo_labels


@pytest.fixture
def small_blocks(monkeypatch):
    """Tiles of 20 rows and 8 columns, so that even small data needs many pairs of them."""
    monkeypatch.setattr(neighbors, "TILE", 20)
    monkeypatch.setattr(neighbors, "COLUMNS", 8)
    monkeypatch.setattr(neighbors, "STRIP", 7)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(2, 1), (3, 5), (50, 33), (130, 7)])
def test_neighbours_equal_those_of_scikit_learn(shape, seed, small_blocks):
    X = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    k = min(10, shape[0] - 1)
    expected = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X.astype(float)).kneighbors(return_distance=False)
    np.testing.assert_array_equal(nearest_neighbors(as_rows(X), k, X.mean(axis=0)), expected)


def test_neighbours_in_tiles_of_the_real_size_equal_those_of_scikit_learn():
    X = np.random.default_rng(0).standard_normal((4100, 37)).astype(np.float32) + 3
    wide = np.tile(X[:600], (1, 111))[:, :4101]
    for data, k in ((X, 20), (wide, 5)):
        gram = np.empty((len(data), len(data)), np.float32)
        ids = nearest_neighbors(as_rows(data), k, data.mean(axis=0), gram=gram, n_threads=2)
        centered = data.astype(float) - data.mean(axis=0)
        expected = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(centered).kneighbors(return_distance=False)
        assert np.mean(ids == expected) > 0.999  # float32 may swap two that are equally near
        np.testing.assert_allclose(gram, centered @ centered.T, atol=1e-2)
        np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_by_cosine_equal_those_of_scikit_learn(seed, small_blocks):
    X = np.random.default_rng(seed).standard_normal((70, 21)).astype(np.float32) + 1
    gram = np.empty((70, 70), np.float32)
    ids = nearest_neighbors(as_rows(X), 9, X.mean(axis=0), directions=True, gram=gram)
    centered = X.astype(float) - X.mean(axis=0)
    expected = NearestNeighbors(n_neighbors=9, algorithm="brute", metric="cosine").fit(centered)
    np.testing.assert_array_equal(ids, expected.kneighbors(return_distance=False))
    np.testing.assert_allclose(gram, 1 - pairwise_distances(centered, metric="cosine"), atol=1e-6)


def test_ties_go_to_the_smaller_id_and_nobody_is_its_own_neighbour(small_blocks):
    X = np.repeat(np.array([[0.0, 0.0], [4.0, 4.0]], np.float32), 20, axis=0)
    X[[5, 25]] = 0  # all-zero rows on both sides
    ids = nearest_neighbors(as_rows(X), 3)
    zero = np.flatnonzero(~X.any(axis=1))
    for i in zero:
        np.testing.assert_array_equal(ids[i], zero[zero != i][:3])
    assert not (ids == np.arange(len(X))[:, None]).any()


def test_the_result_does_not_depend_on_threads_or_kind_of_array(tmp_path, small_blocks):
    X = sp.random_array((90, 40), density=0.3, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    dense = X.toarray()
    np.save(tmp_path / "x.npy", dense)
    center = dense.mean(axis=0)
    expected = nearest_neighbors(as_rows(dense), 7, center)
    for data in (X, np.load(tmp_path / "x.npy", mmap_mode="r"), np.asfortranarray(dense), dense.astype(np.float64)):
        for n_threads in (1, 2, 5):
            np.testing.assert_array_equal(nearest_neighbors(as_rows(data), 7, center, n_threads=n_threads), expected)


def test_a_large_mean_does_not_blur_the_distances(small_blocks):
    X = np.random.default_rng(1).standard_normal((60, 20)).astype(np.float32)
    far = (X + 4096).astype(np.float32)
    expected = (
        NearestNeighbors(n_neighbors=5, algorithm="brute").fit(far.astype(float)).kneighbors(return_distance=False)
    )
    np.testing.assert_array_equal(nearest_neighbors(as_rows(far), 5, far.mean(axis=0)), expected)


@pytest.mark.parametrize("power", [-80, 70])
def test_directions_do_not_depend_on_the_scale(power):
    X = np.random.default_rng(5).standard_normal((60, 20)).astype(np.float32)
    expected = np.empty((60, 60), np.float32)
    ids = nearest_neighbors(as_rows(X), 5, X.mean(axis=0), directions=True, gram=expected)
    scaled, gram = X * np.float32(2.0**power), np.empty((60, 60), np.float32)
    center = X.mean(axis=0) * np.float32(2.0**power)
    np.testing.assert_array_equal(nearest_neighbors(as_rows(scaled), 5, center, directions=True, gram=gram), ids)
    np.testing.assert_array_equal(gram, expected)


def test_inner_products_are_handed_over(small_blocks):
    X = np.random.default_rng(2).standard_normal((37, 11)).astype(np.float32)
    gram = np.full((37, 37), np.nan, np.float32)
    nearest_neighbors(as_rows(X), 3, X.mean(axis=0), gram=gram, n_threads=2)
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(gram, centered @ centered.T, atol=1e-4)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (30, 4), (30, 29)])
def test_positive_pairs_are_the_papers_pseudo_labels(n, k):
    X = np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32)
    graph = positive_pairs(nearest_neighbors(as_rows(X), k))
    np.testing.assert_array_equal(np.where(graph.toarray() > 0, 1.0, -1.0), pseudo_labels(X, k))
    assert graph.has_sorted_indices
    assert set(graph.data) == {1.0}


@pytest.mark.parametrize("directions", [False, True])
def test_centered_rows(directions):
    rng = np.random.default_rng(3)
    rows, center = rng.standard_normal((5, 65)).astype(np.float32), rng.standard_normal(65).astype(np.float32)
    rows[2] = center
    out, squares = centered_rows(rows, center, directions)
    expected = rows.astype(float) - center
    if directions:
        lengths = np.linalg.norm(expected, axis=1, keepdims=True)
        expected /= np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(out, expected, atol=1e-6)
    np.testing.assert_allclose(squares, (expected**2).sum(axis=1), rtol=1e-5)
