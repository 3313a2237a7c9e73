import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge

from projbank import KernelProjectionBank
from projbank.bits import unpack
from projbank.kernels.mercer_groups import move_to_means
from projbank.learn import landmarks
from projbank.learn.run import Run
from projbank.models.mercer import Groups
from projbank.models.mercer_bank import MercerBank
from projbank.rows.source import as_rows
from tests.learn.test_joint import clustered


@pytest.mark.parametrize(("n", "m", "n_centers"), [(40, 1, 3), (300, 7, 20), (50, 16, 50)])
def test_centres_end_where_those_of_scikit_learn_do(n, m, n_centers):
    X = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    centers = np.ascontiguousarray(X[:n_centers].T)
    move_to_means(X, centers, 50)
    peer = KMeans(n_centers, init=X[:n_centers], n_init=1, max_iter=50, tol=0, algorithm="lloyd").fit(X)
    np.testing.assert_allclose(centers.T, peer.cluster_centers_, atol=1e-5)


def test_a_centre_without_samples_stays():
    X = np.zeros((5, 2), np.float32)
    centers = np.array([[0, 9], [0, 9]], np.float32)
    move_to_means(X, centers, 3)
    np.testing.assert_array_equal(centers, [[0, 9], [0, 9]])


def test_regression_is_scikit_learn_s_ridge():
    rng = np.random.default_rng(0)
    K = rng.random((60, 9)).astype(np.float32)
    g = rng.standard_normal(60) + 2
    coefficients, bias = landmarks.regress(K, g)
    alpha = landmarks.RIDGE * ((K - K.mean(axis=0)) ** 2).sum() / 9
    peer = Ridge(alpha=alpha).fit(K, g)
    np.testing.assert_allclose(coefficients, peer.coef_, rtol=1e-3, atol=1e-5)
    assert bias == pytest.approx(-peer.intercept_, rel=1e-3)
    assert np.mean(K @ coefficients - bias) == pytest.approx(g.mean(), abs=1e-6)
    assert landmarks.regress(np.ones((60, 3), np.float32), g)[1] == pytest.approx(-g.mean())  # constant kernels


@pytest.mark.parametrize("degree", [0, 2])
def test_as_many_landmarks_as_samples_give_the_bank_itself(degree, monkeypatch):
    monkeypatch.setattr(landmarks, "RIDGE", 1e-9)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((25, 12)).astype(np.float32)
    groups = Groups(np.array([0, 5, 9, 14]), np.r_[0:5, 3:7, 7:12].astype(np.int32))  # groups may overlap
    a, b = rng.standard_normal((3, 25), dtype=np.float32), rng.standard_normal(3, dtype=np.float32)
    kernel, scale = ("poly", 0.2) if degree else ("rbf", 1.5)
    shape = {"kernel": kernel, "degree": degree, "indptr": groups.indptr, "columns": groups.columns, "biases": b}
    scales, none = np.full(3, scale, np.float32), np.empty((0, 0), np.float32)
    bank = MercerBank(**shape, basis=X, landmarks=none, coefficients=a, scales=scales, means=X.mean(axis=0))
    margins = bank.margins(as_rows(X))
    again = landmarks.with_landmarks(bank, 25, 1.0, Run("bank", seed=0, n_threads=2)).margins(as_rows(X))
    np.testing.assert_allclose(again, margins, atol=0.02 * np.abs(margins).max())


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_few_landmarks_keep_most_bits_of_new_vectors(kernel):
    X = clustered(np.random.default_rng(2), 900, 128, rank=6)
    params = {"kernel": kernel, "n_basis": 400, "n_neighbors": 30, "max_iter": 20}
    full = KernelProjectionBank(16, **params).fit(X[:500])
    bits = unpack(full.transform(X[500:]), 16)
    agreement = []
    for n_landmarks in (4, 32):
        few = KernelProjectionBank(16, n_landmarks=n_landmarks, **params).fit(X[:500])
        np.testing.assert_array_equal(few.decision_function(X), full.reduced(n_landmarks).decision_function(X))
        agreement.append(np.mean(unpack(few.transform(X[500:]), 16) == bits))
    assert agreement[0] < agreement[1]
    assert agreement[1] > 0.95


def test_threads_do_not_change_landmarks():
    X = clustered(np.random.default_rng(3), 120, 100)
    banks = [
        KernelProjectionBank(40, n_basis=60, n_neighbors=5, max_iter=2, n_landmarks=8, n_jobs=n_jobs).fit(X)
        for n_jobs in (1, 2, 3)
    ]
    for bank in banks[1:]:
        for name in ("landmarks_", "coefficients_", "biases_"):
            np.testing.assert_array_equal(getattr(bank, name), getattr(banks[0], name))
