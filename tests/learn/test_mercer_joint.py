import numpy as np
import pytest

from projbank import KernelProjectionBank, load
from projbank.bits import unpack
from projbank.learn import joint
from projbank.learn import mercer_joint as kernel_joint
from projbank.learn.neighbors import nearest_neighbors
from projbank.models.mercer import Groups, KernelBank, Scaling
from tests.learn.test_joint import clustered
from tests.methods.data import digit_products

pytestmark = pytest.mark.filterwarnings("ignore:n_(neighbors|basis)=.* is lowered")


def model_of(rng, n=60, n_features=24, d=5, n_landmarks=6, n_threads=1):
    X = clustered(rng, n, n_features, rank=4)
    groups = Groups.from_labels((np.arange(n_features) % d).astype(np.int32), d)
    scaling = Scaling.radial(groups, np.full(d, 20.0), X.mean(axis=0))
    start = rng.standard_normal((n, d), dtype=np.float32)
    return X, kernel_joint.KernelModel(X, groups, scaling, n_landmarks, start, 0, n_threads), scaling


def test_axes_have_variance_1_and_weights_give_the_start():
    rng = np.random.default_rng(0)
    K = rng.standard_normal((300, 7)).astype(np.float32) * np.geomspace(1, 1e-2, 7, dtype=np.float32)
    K -= K.mean(axis=0)
    wanted = K @ rng.standard_normal(7, dtype=np.float32)
    axes, weights = kernel_joint.principal_axes(K, wanted)
    np.testing.assert_allclose((K @ axes).T @ (K @ axes) / 300, np.eye(7), atol=1e-3)
    np.testing.assert_allclose(K @ axes @ weights, wanted / wanted.std(), atol=0.01)
    axes, weights = kernel_joint.principal_axes(np.zeros((9, 3), np.float32), np.ones(9, np.float32))
    assert not axes.any()
    assert not weights.any()


@pytest.mark.parametrize("n_rows", [3, 130])
def test_margins_are_those_of_the_bank_and_gradients_those_of_the_margins(n_rows):
    rng = np.random.default_rng(1)
    X, model, scaling = model_of(rng, n=150)
    model.offsets[:] = rng.standard_normal(5)
    rows, slopes = X[:n_rows], rng.standard_normal((n_rows, 5), dtype=np.float32)
    F = model.margins(rows).astype(float)
    expected = np.empty((n_rows, 5), np.float32)
    KernelBank(model.groups, model.landmarks, *model.coefficients(), scaling).write(rows, expected)
    np.testing.assert_allclose(F, expected, atol=1e-4)

    weight_slopes, offset_slopes = model.gradient(slopes)
    np.testing.assert_allclose(offset_slopes, -slopes.sum(axis=0), rtol=1e-4, atol=1e-4)
    for p, i in ((0, 0), (2, 3), (4, 5)):  # margins are linear in the weights: one step shows the slope
        model.weights[p, i] += 1
        moved = model.margins(rows).astype(float)
        model.weights[p, i] -= 1
        assert weight_slopes[p, i] == pytest.approx(((moved - F) * slopes).sum(), abs=2e-2)


def quick(n_bits=16, **params):
    defaults = {"solver": "joint", "n_neighbors": 10, "max_iter": 6, "n_basis": 100, "n_landmarks": 8}
    return KernelProjectionBank(n_bits, **(defaults | params))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_the_loss_falls_and_unseen_digits_are_found(kernel):
    X, digits = digit_products(900)
    X = np.ascontiguousarray(X[:, ::4])
    train, rest, truth = X[:600], X[600:], digits[600:]
    bank = quick(64, kernel=kernel, n_basis=200, n_neighbors=30, max_iter=12, n_landmarks=16).fit(train)
    assert bank.loss_curve_[-1] < 0.95 * bank.loss_curve_[0]  # the start was learnt, too
    assert bank.basis_.shape == (0, X.shape[1])
    bits = unpack(bank.transform(rest), 64).astype(np.float32)
    alone = KernelProjectionBank(64, kernel=kernel, n_basis=200, n_neighbors=30, max_iter=5, n_landmarks=16).fit(train)
    others = unpack(alone.transform(rest), 64).astype(np.float32)
    found, other = (np.mean(truth[nearest_neighbors(codes, 20)] == truth[:, None]) for codes in (bits, others))
    assert found > other


def test_threads_and_files_do_not_change_the_bits(tmp_path):
    X = clustered(np.random.default_rng(3), 150, 64)
    first = quick(n_jobs=1).fit(X)
    for n_jobs in (2, 3):
        bank = quick(n_jobs=n_jobs).fit(X)
        for name in ("landmarks_", "coefficients_", "biases_", "loss_curve_"):
            np.testing.assert_array_equal(getattr(bank, name), getattr(first, name))
    first.save(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "bank.safetensors").transform(X), first.transform(X))


@pytest.mark.parametrize("solver", ["paper", "joint"])
@pytest.mark.parametrize(("grouping", "n_bits"), [("soft", 7), ("soft-random", 40), ("soft-kmeans", 20)])
def test_soft_groupings(solver, grouping, n_bits, tmp_path):
    X = clustered(np.random.default_rng(4), 80, 24)
    bank = quick(n_bits, solver=solver, grouping=grouping, max_iter=2).fit(X)
    assert bank.group_sizes_.sum() == len(bank.columns_) == 48
    bank.save(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "bank.safetensors").transform(X), bank.transform(X))


@pytest.mark.parametrize("n", [2, 3, 20])
def test_degenerate_data_give_no_nan(n):
    zeros = np.zeros((n, 9), np.float32)
    for X in (zeros, zeros + 5, np.vstack([zeros[:1], zeros[1:] + 1])):
        bank = quick(4, max_iter=2).fit(X)
        for name in ("coefficients_", "biases_", "landmarks_", "loss_curve_"):
            assert np.isfinite(getattr(bank, name)).all(), name
        assert np.isfinite(bank.decision_function(X)).all()


def test_a_function_is_refused():
    with pytest.raises(ValueError, match=r"'kernel' parameter of KernelProjectionBank must be one of .* joint solver"):
        quick(kernel=lambda A, B: A @ B.T, n_landmarks=None).fit(np.eye(9, dtype=np.float32))


def test_a_bank_on_landmarks_is_not_reduced_again():
    bank = quick().fit(clustered(np.random.default_rng(5), 60, 32))
    with pytest.raises(ValueError, match="has 8 landmarks already"):
        bank.reduced(4)


def test_held_back_vectors_end_the_learning_and_choose_the_coefficients(monkeypatch, capsys):
    X = clustered(np.random.default_rng(6), 400, 64)
    seen = []
    judge = joint._Referee.judge

    def spy(self):
        weights, best = self._bank.weights.copy(), self._best
        told = judge(self)
        if isinstance(self._bank, kernel_joint.KernelModel) and self._best < best:
            seen.append((self._bank, weights))
        return told

    monkeypatch.setattr(joint._Referee, "judge", spy)
    bank = quick(max_iter=300, verbose=1).fit(X)
    assert bank.n_iter_ < 300
    assert (
        capsys.readouterr().err.count("the held-back vectors gain no more") == 2
    )  # the linear start's, and the kernels'
    model, weights = seen[-1]
    best = np.einsum("pij,pj->pi", model._axes, weights)
    scales = np.linalg.norm(bank.coefficients_, axis=1) / np.linalg.norm(best, axis=1)  # margins were scaled in the end
    np.testing.assert_allclose(
        bank.coefficients_, best * scales[:, None], rtol=1e-3, atol=1e-5 * np.abs(bank.coefficients_).max()
    )


def test_margins_have_deviation_one_and_queries_are_their_tanh():
    X = clustered(np.random.default_rng(7), 300, 64)
    bank = quick().fit(X)
    margins = bank.decision_function(X)
    np.testing.assert_allclose(margins.std(axis=0), 1, atol=0.15)
    np.testing.assert_allclose(bank.query_values(X), np.tanh(margins), rtol=1e-6)
    plain = quick(solver="paper").fit(X)
    np.testing.assert_array_equal(plain.query_values(X), plain.decision_function(X))
