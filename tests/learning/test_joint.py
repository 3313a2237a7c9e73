import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from projbank import ProjectionBank
from projbank.codes import unpack
from projbank.learning import joint
from projbank.neighbors import nearest_neighbors, positive_pairs


def clustered(rng, n, n_features, rank=20):
    """Vectors near a low-dimensional space, with dimensions of uneven size and a mean."""
    hidden = rng.standard_normal((n, rank)) + 3 * rng.standard_normal((8, rank))[rng.integers(0, 8, n)]
    noise = rng.standard_normal((n, n_features))
    return (hidden @ rng.standard_normal((rank, n_features)) + noise + rng.standard_normal(n_features)).astype(
        np.float32
    )


def naive_loss(F, target, deviations):
    H = np.tanh(F / deviations)
    S = H @ H.T / F.shape[1]
    pairs = ~np.eye(len(F), dtype=bool)
    return 1 - np.corrcoef(S[pairs], target[pairs])[0, 1] + np.mean(H.mean(axis=0) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_agree_with_finite_differences(seed):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((11, 5)).astype(np.float32)
    target = rng.standard_normal((11, 11)).astype(np.float32)
    target = joint._standardise(target + target.T)
    loss, slopes = joint.code_loss(F, target)
    exact = F.astype(float)
    deviations = exact.std(axis=0)
    assert loss == pytest.approx(naive_loss(exact, target, deviations), abs=1e-5)
    for i in range(11):
        for p in range(5):
            step = np.zeros_like(exact)
            step[i, p] = 1e-5
            rise = naive_loss(exact + step, target, deviations) - naive_loss(exact - step, target, deviations)
            assert slopes[i, p] == pytest.approx(rise / 2e-5, abs=1e-6)


def test_the_target_is_cosine_plus_two_step_diffusion():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12)).astype(np.float32)
    graph = positive_pairs(nearest_neighbors(X, 5))
    centered = (X - X.mean(axis=0)).astype(float)
    result = joint.similarity_target((centered @ centered.T).astype(np.float32), joint._symmetric_walk(graph))

    pairs = ~np.eye(40, dtype=bool)
    edges = graph.toarray().astype(float)
    walk = edges / np.sqrt(np.outer(edges.sum(axis=1), edges.sum(axis=1)))
    unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    parts = [part[pairs] for part in (unit @ unit.T, walk @ walk)]
    expected = sum((part - part.mean()) / part.std() for part in parts)
    np.testing.assert_allclose(result[pairs], (expected - expected.mean()) / expected.std(), atol=1e-4)
    assert not result[~pairs].any()


def test_the_loss_falls_and_unseen_digits_are_found_better_than_by_a_random_bank():
    images, digits = load_digits(return_X_y=True)
    X = np.sqrt(images[:, :, None] * images[:, None, 20:40]).reshape(len(images), -1).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    train, rest, truth = X[:900], X[900:], digits[900:]
    bank = ProjectionBank(64, n_neighbors=30, max_iter=25).fit(train)
    assert bank.loss_curve_[-1] < 0.5 * bank.loss_curve_[0]

    untrained = clone(bank).set_params(max_iter=1).fit(train)
    untrained.weights_[:] = np.random.default_rng(0).choice([-1, 1], X.shape[1])
    untrained.biases_[:] = np.bincount(untrained.labels_, untrained.weights_ * train.mean(axis=0))
    precision = []
    for model in (bank, untrained):
        bits = unpack(model.transform(rest), 64).astype(np.float32)
        precision.append(np.mean(truth[nearest_neighbors(bits, 20)] == truth[:, None]))
    assert precision[0] > precision[1] + 0.02


def test_bits_are_balanced():
    X = clustered(np.random.default_rng(2), 500, 256)
    shares = unpack(ProjectionBank(32, n_neighbors=20).fit(X).transform(X), 32).mean(axis=0)
    assert np.abs(shares - 0.5).max() < 0.15


def test_the_result_does_not_depend_on_threads_or_kind_of_array(tmp_path):
    X = clustered(np.random.default_rng(3), 70, 130)
    np.save(tmp_path / "x.npy", X)
    expected = ProjectionBank(17, n_neighbors=5, max_iter=3, n_jobs=1).fit(X)
    for data, n_jobs in ((X, 2), (X, 3), (np.load(tmp_path / "x.npy", mmap_mode="r"), 2), (X.astype(np.float64), 1)):
        bank = ProjectionBank(17, n_neighbors=5, max_iter=3, n_jobs=n_jobs).fit(data)
        np.testing.assert_array_equal(bank.weights_, expected.weights_)
        np.testing.assert_array_equal(bank.biases_, expected.biases_)


def test_batches_without_a_kept_target_learn_as_well(monkeypatch):
    X = clustered(np.random.default_rng(4), 300, 128)
    kept = ProjectionBank(16, n_neighbors=10, max_iter=5).fit(X)
    monkeypatch.setattr(joint, "GRAM_LIMIT", 10)
    anew = ProjectionBank(16, n_neighbors=10, max_iter=5).fit(X)
    np.testing.assert_allclose(anew.loss_curve_, kept.loss_curve_, atol=1e-3)


@pytest.mark.parametrize("n", [2, 3])
def test_degenerate_data_gives_no_nan(n):
    X = np.zeros((n, 9), np.float32)
    for rows in (X, X + 5, np.vstack([X[:1], X[1:] + 1])):
        bank = ProjectionBank(4, n_neighbors=1, max_iter=2).fit(rows)
        assert np.isfinite(bank.weights_).all()
        assert np.isfinite(bank.biases_).all()
        assert np.isfinite(bank.loss_curve_).all()
