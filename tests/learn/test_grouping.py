import numpy as np
import pytest
from scipy.spatial.distance import pdist

from projbank.learn import grouping
from projbank.learn.grouping import (
    GROUPINGS,
    check_labels,
    fill_empty_groups,
    group_dimensions,
    sketch_dimensions,
)
from projbank.models.bank import group_columns
from projbank.rows.source import as_rows


def sizes_of(labels, n_bits):
    assert labels.dtype == np.int32
    sizes = np.bincount(labels, minlength=n_bits)
    assert len(sizes) == n_bits
    return sizes


@pytest.mark.parametrize("name", GROUPINGS)
@pytest.mark.parametrize(
    ("n", "n_features", "n_bits"), [(2, 1, 1), (5, 7, 7), (40, 100, 13), (600, 64, 9), (3, 65, 64)]
)
def test_every_group_has_a_dimension(name, n, n_features, n_bits):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    sizes = sizes_of(group_dimensions(name, as_rows(X), n_bits, np.random.default_rng(1)), n_bits)
    assert sizes.min() >= 1
    assert sizes.sum() == n_features
    if name != "kmeans":
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("n", [30, 700])
def test_kmeans_survives_constant_and_duplicate_dimensions(n):
    rng = np.random.default_rng(2)
    X = np.repeat(
        rng.standard_normal((n, 3)).astype(np.float32), 20, axis=1
    )  # three different dimensions, 20 times each
    X[:, :10] = 0.5
    X[:, 10:20] = 0
    assert sizes_of(group_dimensions("kmeans", as_rows(X), 50, np.random.default_rng(0)), 50).min() >= 1
    assert sizes_of(group_dimensions("kmeans", as_rows(np.zeros_like(X)), 7, np.random.default_rng(0)), 7).min() >= 1


@pytest.mark.parametrize("n", [100, 900])
def test_kmeans_finds_dimensions_that_move_together(n):
    rng = np.random.default_rng(3)
    causes = rng.standard_normal((n, 4))
    owner = rng.permutation(np.arange(48) % 4)
    X = (causes[:, owner] + 0.05 * rng.standard_normal((n, 48))).astype(np.float32)
    labels = min(
        (group_dimensions("kmeans", as_rows(X), 4, np.random.default_rng(seed)) for seed in range(8)),
        key=lambda labels: sum(X[:, labels == g].var(axis=1).sum() for g in range(4)),
    )
    assert len({(a, b) for a, b in zip(owner, labels, strict=True)}) == 4


def test_kmeans_does_not_depend_on_threads():
    X = np.random.default_rng(4).standard_normal((700, 300)).astype(np.float32)
    first, second = (group_dimensions("kmeans", as_rows(X), 40, np.random.default_rng(5), n_threads=t) for t in (1, 2))
    np.testing.assert_array_equal(first, second)


def test_kmeans_restores_the_threads_of_faiss():
    import faiss

    before = faiss.omp_get_max_threads()
    X = np.random.default_rng(4).standard_normal((30, 50)).astype(np.float32)
    group_dimensions("kmeans", as_rows(X), 5, np.random.default_rng(5), n_threads=before + 3)
    assert faiss.omp_get_max_threads() == before


def test_a_sketch_keeps_distances_and_short_data_is_kept_as_it_is(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((3000, 40)).astype(np.float32)
    sketch = sketch_dimensions(as_rows(X), rng, n_threads=2)
    assert sketch.shape == (40, grouping.SKETCH)
    ratios = pdist(sketch) / pdist(X.T)
    assert abs(ratios.mean() - 1) < 0.02
    assert ratios.std() < 0.08
    np.testing.assert_array_equal(sketch_dimensions(as_rows(X[:100]), rng), X[:100].T)


def test_empty_groups_take_half_of_the_largest():
    points = np.array([[0.0], [0.1], [0.2], [9.0], [5.0]], np.float32)
    labels = fill_empty_groups(np.array([0, 0, 0, 0, 2], np.int32), 3, points)
    np.testing.assert_array_equal(labels[4], 2)
    assert labels[3] == 1  # the farthest from the mean moves
    assert sorted(np.bincount(labels)) == [1, 2, 2]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros(4, int), "shape (5,)"),
        (np.zeros(5), "dtype float64"),
        (np.array([0, 1, 2, 3, 0]), "from 0 to n_bits - 1 = 2"),
        (np.array([0, -1, 2, 1, 0]), "from -1 to 2"),
        (np.array([0, 0, 2, 2, 0]), "Group 1 has no dimension"),
    ],
)
def test_bad_labels_are_named(labels, words):
    with pytest.raises(ValueError, match=r"'grouping' array") as error:
        check_labels(labels, 5, 3)
    assert words in str(error.value)


def test_given_labels_are_kept():
    labels = np.array([2, 0, 1, 1, 0], np.uint8)
    np.testing.assert_array_equal(check_labels(labels, 5, 3), labels)


def check_soft(labels, n_assign, n_features, n_bits):
    """Every dimension in n_assign different groups, no group empty: what a given array must fulfil."""
    assert labels.shape == (n_assign, n_features)
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(check_labels(labels, n_features, n_bits), labels)
    return np.bincount(labels.ravel(), minlength=n_bits)


@pytest.mark.parametrize("name", ["kmeans", "random"])
@pytest.mark.parametrize(
    ("n", "n_features", "n_bits", "n_assign"),
    [
        (5, 1, 1, 1),
        (5, 7, 7, 2),
        (40, 100, 13, 1),
        (40, 100, 13, 3),
        (600, 64, 9, 2),
        (3, 65, 64, 2),
        (20, 30, 31, 2),  # more bits than dimensions
        (20, 30, 60, 2),  # as many as there can be: all groups hold one dimension
        (20, 3, 7, 5),  # more groups per dimension than dimensions
        (20, 50, 3, 2),
    ],
)
def test_soft_groups(name, n, n_features, n_bits, n_assign):
    X = np.random.default_rng(0).standard_normal((n, n_features)).astype(np.float32)
    labels = group_dimensions(name, as_rows(X), n_bits, np.random.default_rng(1), n_assign=n_assign)
    labels = np.atleast_2d(labels)
    sizes = check_soft(labels, n_assign, n_features, n_bits)
    if name == "random":
        assert sizes.max() - sizes.min() <= max(n_assign, 0.2 * sizes.mean())


@pytest.mark.parametrize("name", ["kmeans", "random"])
@pytest.mark.parametrize("n_bits", [7, 50, 60, 100])
def test_soft_groups_of_constant_and_duplicate_dimensions(name, n_bits):
    X = np.repeat(np.random.default_rng(2).standard_normal((30, 3)).astype(np.float32), 20, axis=1)
    X[:, :10] = 0.5
    X[:, 10:20] = 0
    for rows in (X, np.zeros_like(X)):
        check_soft(group_dimensions(name, as_rows(rows), n_bits, np.random.default_rng(0), n_assign=2), 2, 60, n_bits)


def test_soft_kmeans_is_kmeans_and_the_next_nearest_centres():
    X = np.random.default_rng(3).standard_normal((40, 80)).astype(np.float32)
    hard = group_dimensions("kmeans", as_rows(X), 6, np.random.default_rng(4))
    soft = group_dimensions("kmeans", as_rows(X), 6, np.random.default_rng(4), n_assign=3)
    np.testing.assert_array_equal(soft[0], hard)
    centres = np.stack([X[:, hard == p].mean(axis=1) for p in range(6)])
    distances = ((X.T[:, None] - centres) ** 2).sum(axis=2)  # k-means has not converged to the last bit: most, not all
    assert np.mean(np.sort(soft, axis=0) == np.sort(np.argsort(distances, axis=1)[:, :3].T, axis=0)) > 0.8
    many = group_dimensions("kmeans", as_rows(X), 80, np.random.default_rng(4), n_assign=2)
    assert np.mean(many[0] == np.arange(80)) == 1  # each dimension is its own centre


def test_soft_groups_do_not_depend_on_threads():
    X = np.random.default_rng(4).standard_normal((700, 300)).astype(np.float32)
    for n_bits in (40, 310):
        first, second = (
            group_dimensions("kmeans", as_rows(X), n_bits, np.random.default_rng(5), n_assign=2, n_threads=t)
            for t in (1, 2)
        )
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("labels", [[2, 0, 1, 1, 0], [[2, 0, 1, 1, 0], [0, 1, 2, 0, 2]]])
def test_columns_of_groups(labels):
    labels = np.array(labels, np.int32)
    indptr, columns = group_columns(labels, 3)
    assert indptr.dtype == columns.dtype == np.int64
    assert indptr[-1] == len(columns) == labels.size
    for p in range(3):
        own = [j for j in range(5) if p in np.atleast_2d(labels)[:, j]]
        np.testing.assert_array_equal(columns[indptr[p] : indptr[p + 1]], own)


def test_bad_soft_labels_are_named():
    with pytest.raises(ValueError, match="Feature 2 is twice in one"):
        check_labels(np.array([[0, 1, 2, 0], [1, 2, 2, 1]]), 4, 3)
    with pytest.raises(ValueError, match=r"or r of them, shape \(r, 4\)"):
        check_labels(np.zeros((2, 5), int), 4, 3)


@pytest.mark.parametrize("n_assign", [1, 2, 3])
@pytest.mark.parametrize(("n_features", "n_bits"), [(7, 7), (61, 7), (100, 99), (65, 4), (20, 20)])
def test_equal_kmeans_groups_differ_by_one_place_at_most(n_features, n_bits, n_assign):
    X = np.random.default_rng(1).standard_normal((30, n_features)).astype(np.float32)
    X[:, : n_features // 2] = 0  # many equal dimensions, which one group cannot hold
    labels = group_dimensions("kmeans-equal", as_rows(X), n_bits, np.random.default_rng(2), n_assign=n_assign)
    if n_assign == 1:
        sizes = sizes_of(labels, n_bits)
        assert sizes.max() - sizes.min() <= 1
    else:
        check_soft(labels, n_assign, n_features, n_bits)


def test_equal_kmeans_finds_dimensions_that_move_together():
    rng = np.random.default_rng(3)
    causes = rng.standard_normal((50, 4))
    owner = rng.permutation(np.arange(48) % 4)
    X = (causes[:, owner] + 0.05 * rng.standard_normal((50, 48))).astype(np.float32)
    found = [group_dimensions("kmeans-equal", as_rows(X), 4, np.random.default_rng(seed)) for seed in range(8)]
    labels = min(found, key=lambda labels: sum(X[:, labels == g].var(axis=1).sum() for g in range(4)))
    assert len({(a, b) for a, b in zip(owner, labels, strict=True)}) == 4


def test_equal_kmeans_groups_lie_closer_together_than_random_ones():
    rng = np.random.default_rng(5)
    X = (rng.standard_normal((40, 6)) @ rng.gamma(0.3, 1, (6, 300))).astype(np.float32)

    def spread(labels):
        return sum(X[:, labels == g].var(axis=1).sum() * np.sum(labels == g) for g in range(30))

    kinds = ("kmeans", "kmeans-equal", "random")
    plain, equal, drawn = (spread(group_dimensions(k, as_rows(X), 30, np.random.default_rng(6))) for k in kinds)
    assert plain < equal < drawn / 2


def test_equal_kmeans_does_not_depend_on_threads():
    X = np.random.default_rng(4).standard_normal((700, 300)).astype(np.float32)
    first, second = (
        group_dimensions("kmeans-equal", as_rows(X), 40, np.random.default_rng(5), n_threads=t) for t in (1, 2)
    )
    np.testing.assert_array_equal(first, second)
