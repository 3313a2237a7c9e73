import numpy as np
import pytest

from projbank import ProjectionBank
from projbank.base import INITS
from projbank.learn import pair_hinge, paper
from projbank.learn.grouping import group_dimensions
from projbank.learn.neighbors import nearest_neighbors, positive_pairs
from projbank.learn.run import Run
from projbank.rows.source import as_rows
from tests.reference.paper import best_equal_weights, gradient, loss, pseudo_labels


def clustered(rng, n, n_features, n_clusters=4):
    centers = rng.standard_normal((n_clusters, n_features))
    return (centers[rng.integers(0, n_clusters, n)] + rng.standard_normal((n, n_features)) + 1).astype(np.float32)


def tile_of(X, sizes, k, lam):
    """The loss object of one tile whose groups are consecutive dimensions."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    means = X.mean(axis=0, dtype=np.float64)
    dims = np.ascontiguousarray((X - means.astype(np.float32)).T[: starts[-1]])
    graph = positive_pairs(nearest_neighbors(as_rows(X), k))
    return pair_hinge.PairHinge(
        dims,
        starts[:-1],
        starts,
        means[: starts[-1]],
        graph.indptr.astype(np.int64),
        graph.indices.astype(np.int32),
        lam,
    )


def fit(X, labels, k=5, **settings):
    n_bits = int(labels.max()) + 1
    run = Run("bank", seed=settings.pop("seed", 0), n_threads=settings.pop("n_threads", 1))
    learner = paper.PaperLearner.of(ProjectionBank(**({"tol": 0.0} | settings)).get_params())
    graph = positive_pairs(nearest_neighbors(as_rows(X), min(k, len(X) - 1)))
    return learner.learn_groups(as_rows(X), labels, graph, X.mean(0, dtype=np.float64), n_bits, run)


@pytest.mark.parametrize("lam", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(2))
def test_loss_and_gradient_agree_with_the_transcription(lam, seed):
    rng = np.random.default_rng(seed)
    X = clustered(rng, 25, 9)
    sizes = [2, 4, 3]
    tile = tile_of(X, sizes, 4, lam)
    weights = rng.standard_normal(9, dtype=np.float32)
    offsets = rng.standard_normal(3, dtype=np.float32)
    at = tile.evaluate(weights, offsets)
    losses, weight_slopes, offset_slopes = at.losses, at.weight_slopes, at.offset_slopes
    labels = pseudo_labels(X, 4)
    for t in range(3):
        own = slice(tile.starts[t], tile.starts[t + 1])
        extended = np.hstack([X[:, own].astype(float), -np.ones((25, 1))])
        full = np.append(weights[own].astype(float), tile.biases(weights, offsets)[t])
        assert losses[t] == pytest.approx(loss(full, extended, labels, lam), rel=1e-5)
        slope = gradient(full, extended, labels, lam)
        # centred coordinates: b = offset + w . mean, so dL/dw gains mean * dL/db
        expected = slope[:-1] + X[:, own].mean(axis=0, dtype=float) * slope[-1]
        scale = np.abs(expected).max() + np.abs(slope[-1])
        np.testing.assert_allclose(weight_slopes[own], expected, atol=2e-5 * scale)
        assert offset_slopes[t] == pytest.approx(slope[-1], abs=2e-5 * scale)


@pytest.mark.parametrize("grouping", ["random", "kmeans"])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_ends_below_w_0_and_not_above_equal_weights(grouping, seed):
    rng = np.random.default_rng(seed)
    X = clustered(rng, 150, 60)
    labels = group_dimensions(grouping, as_rows(X), 9, np.random.default_rng(seed))
    weights, biases, curves = fit(X, labels, k=10)
    signs = pseudo_labels(X, 10)
    for p in range(9):
        own = labels == p
        f = X[:, own].astype(float) @ weights[own] - biases[p]
        total = 0.5 * (weights[own] @ weights[own] + biases[p] ** 2) + np.maximum(0, 1 - signs * np.outer(f, f)).sum()
        assert curves[p, -1] == pytest.approx(total / 150**2, rel=1e-4)  # what was reported is what was reached
        assert total / 150**2 < 1
        assert total <= best_equal_weights(X[:, own].astype(float), signs, 1.0, np.geomspace(0.05, 5, 60))


def test_the_loss_never_rises_and_70_steps_come_close_to_600():
    X = clustered(np.random.default_rng(1), 200, 96)
    labels = group_dimensions("random", as_rows(X), 12, np.random.default_rng(0))
    _, _, short = fit(X, labels, k=10)
    _, _, long = fit(X, labels, k=10, max_iter=600)
    assert (np.diff(long, axis=1) <= 0).all()
    np.testing.assert_array_equal(short, long[:, : short.shape[1]])
    gained = (1 - short[:, -1]) / (1 - long[:, -1])
    assert gained.mean() > 0.9


@pytest.mark.parametrize("init", INITS)
def test_every_start_descends(init):
    X = clustered(np.random.default_rng(2), 120, 40)
    labels = group_dimensions("random", as_rows(X), 5, np.random.default_rng(0))
    _, _, curves = fit(X, labels, init=init)
    assert (curves[:, -1] < curves[:, 0]).all()
    assert (curves[:, -1] < 1).all()


def test_the_leading_start_is_not_above_equal_weights():
    X = clustered(np.random.default_rng(3), 120, 64)
    labels = group_dimensions("random", as_rows(X), 8, np.random.default_rng(0))
    curves = {init: fit(X, labels, init=init, max_iter=1)[2][:, 0] for init in INITS}
    assert (curves["leading"] <= curves["equal"]).all()
    assert curves["leading"].mean() < curves["random"].mean()


def test_the_result_does_not_depend_on_threads_or_chunks(monkeypatch, tmp_path):
    X = clustered(np.random.default_rng(4), 90, 200)
    labels = group_dimensions("random", as_rows(X), 37, np.random.default_rng(0))
    expected = fit(X, labels, n_threads=1)
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr(paper, "CHUNK_BYTES", 4 * 90 * 50)
    for data, n_threads in ((X, 2), (np.load(tmp_path / "x.npy", mmap_mode="r"), 3)):
        for array, other in zip(expected, fit(data, labels, n_threads=n_threads), strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("n", [2, 3, 17])
def test_constant_dimensions_give_no_nan(n):
    X = clustered(np.random.default_rng(5), n, 12)
    X[:, :5] = 3.0  # groups 0 and 1 are constant, group 2 half so
    labels = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4], np.int32)
    for init in INITS:
        weights, biases, curves = fit(X, labels, init=init)
        assert np.isfinite(weights).all()
        assert np.isfinite(biases).all()
        assert np.isfinite(curves).all()


def test_a_nudge_leaves_the_point_where_hinges_sit_at_0():
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]], np.float32)
    tile = tile_of(X, [1], 1, 1e6)
    weights, _, curves = pair_hinge.descend(tile, "equal", 30, 0.0, np.random.default_rng(0))
    assert tile.evaluate(np.ones(1, np.float32), np.zeros(1, np.float32)).kinks[0] > 0  # w = 1 is such a point
    assert np.isfinite(weights).all()
    assert curves[0, -1] <= curves[0, 0]


def test_tol_stops_groups_for_themselves():
    X = clustered(np.random.default_rng(6), 100, 40)
    labels = group_dimensions("random", as_rows(X), 6, np.random.default_rng(0))
    _, _, curves = fit(X, labels, tol=1e-3)
    _, _, full = fit(X, labels)
    for stopped, going in zip(curves, full, strict=True):
        last = np.flatnonzero(np.diff(stopped))[-1] + 2 if np.diff(stopped).any() else 1
        np.testing.assert_array_equal(stopped[:last], going[:last])
        assert (stopped[last:] == stopped[-1]).all()
    assert (curves[:, -1] >= full[:, -1]).all()
    assert (curves[:, -1] > full[:, -1]).any()


def test_groups_that_go_on_while_others_stop_end_as_they_would_alone():
    X = clustered(np.random.default_rng(7), 80, 160)
    tile = tile_of(X, np.random.default_rng(0).permutation(np.repeat([2, 3, 5], [20, 15, 15])), 6, 1.0)
    weights, biases, curves = pair_hinge.descend(tile, "equal", 60, 1e-4, np.random.default_rng(0))
    stops = (np.diff(curves, axis=1) != 0).sum(axis=1)
    assert np.ptp(stops) > 5
    for p in range(50):
        alone = pair_hinge.descend(tile.part(np.arange(50) == p), "equal", 60, 1e-4, np.random.default_rng(0))
        np.testing.assert_array_equal(weights[tile.group_of == p], alone[0])
        assert biases[p] == alone[1]
        np.testing.assert_array_equal(curves[p], alone[2][0])
