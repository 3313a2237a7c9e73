import numpy as np
import pytest

from projbank import KernelProjectionBank, ProjectionBank
from projbank.learn import mercer as kernel
from projbank.learn import paper
from projbank.learn.neighbors import nearest_neighbors, positive_pairs
from projbank.learn.run import Run
from projbank.models.mercer import Groups, Scaling
from projbank.rows.source import as_rows
from tests.learn.test_paper import clustered
from tests.reference import kernel as reference
from tests.reference.paper import pseudo_labels


def linear_curves(X, labels, graph, **settings):
    learner = paper.PaperLearner.of(ProjectionBank(**({"tol": 0.0} | settings)).get_params())
    means, n_bits = X.mean(axis=0, dtype=float), int(labels.max()) + 1
    return learner.learn_groups(as_rows(X), labels, graph, means, n_bits, Run("bank", seed=0))[2]


def kernel_learnt(X, groups, graph, form, n_threads=1, **settings):
    learner = kernel.MercerLearner.of(KernelProjectionBank(**({"tol": 0.0} | settings)).get_params())
    return learner.learn_groups(X, groups, graph, form, Run("bank", seed=0, n_threads=n_threads))


def graph_of(X, k):
    return positive_pairs(nearest_neighbors(as_rows(X), k))


def forms(X, groups):
    """Every built-in kernel as (scaling, literal kernel of group p)."""
    sigmas = kernel.adaptive_sigmas(X, groups, 4, 1.5)
    gammas = kernel.scale_gammas(X, groups)
    return {
        "rbf": (Scaling.radial(groups, sigmas, X.mean(axis=0)), lambda p: lambda x, y: reference.rbf(x, y, sigmas[p])),
        "poly": (Scaling.polynomial(groups, gammas, 3), lambda p: lambda x, y: reference.poly(x, y, 3, gammas[p])),
        "linear": (Scaling.linear(groups), lambda p: reference.linear),
    }


def hinge_of(X, groups, form, k, lam):
    matrices = np.empty((len(groups), len(X), len(X)), np.float32)
    for p in range(len(groups)):
        kernel.kernel_matrix(X[:, groups.columns], groups, p, form, matrices[p])
    graph = graph_of(X, k)
    indptr, indices = graph.indptr.astype(np.int64), graph.indices.astype(np.int32)
    return kernel.KernelHinge.of(matrices, form.constant, indptr, indices, lam)


@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("lam", [0.01, 5.0])
def test_loss_and_gradient_agree_with_the_transcription(name, lam):
    rng = np.random.default_rng(1)
    X = clustered(rng, 22, 9)
    groups = Groups.from_labels(np.array([2, 0, 0, 1, 1, 1, 2, 2, 2]), 3)
    form, literal = forms(X, groups)[name]
    loss = hinge_of(X, groups, form, 4, lam)
    labels = pseudo_labels(X, 4)
    a = 0.2 * rng.standard_normal(66, dtype=np.float32)
    at = loss.evaluate(a, np.zeros(3, np.float32))
    losses, slopes, offset_slopes = at.losses, at.weight_slopes, at.offset_slopes
    assert not offset_slopes.any()
    for p in range(3):
        own = X[:, groups.columns[groups.own(p)]].astype(float)
        K = reference.gram(own, literal(p))
        part = a[22 * p : 22 * p + 22].astype(float)
        assert losses[p] == pytest.approx(reference.loss(part, K, labels, lam), rel=1e-5)
        expected = reference.gradient(part, K, labels, lam)
        found = K @ slopes[22 * p : 22 * p + 22]  # the paper's gradient is K times that of the kernel's space
        np.testing.assert_allclose(found, expected, atol=3e-5 * np.abs(expected).max())


def test_sigmas_and_their_fallbacks():
    X = clustered(np.random.default_rng(2), 30, 7)
    X[:, 3] = 2.0
    X[:, 4] = np.arange(30) % 2  # every sample has equals: nearest neighbours are 0 apart
    groups = Groups.from_labels(np.array([0, 0, 0, 1, 2, 3, 3]), 4)
    sigmas = kernel.adaptive_sigmas(X, groups, 4, 1.5, n_threads=2)
    for p in (0, 3):
        own = X[:, groups.columns[groups.own(p)]].astype(float)
        assert sigmas[p] == pytest.approx(reference.adaptive_sigma(own, 4, 1.5), rel=1e-5)
    assert sigmas[1] == 1.0
    assert sigmas[2] == pytest.approx(1.5 * np.sqrt(0.5), rel=1e-6)


def test_gammas_are_inverse_mean_squared_lengths():
    X = clustered(np.random.default_rng(3), 20, 5)
    X[:, 4] = 0
    groups = Groups(np.array([0, 3, 5, 6]), np.array([2, 0, 1, 1, 3, 4], np.int32))
    gammas = kernel.scale_gammas(X, groups)
    for p in range(2):
        own = X[:, groups.columns[groups.own(p)]].astype(float)
        assert gammas[p] == pytest.approx(1 / np.mean((own**2).sum(axis=1)), rel=1e-5)
    assert gammas[2] == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_linear_kernel_on_all_samples_reaches_the_linear_loss(seed):
    """The linear learner also pays for its bias, the kernel bank does not: its loss may be a little lower."""
    rng = np.random.default_rng(seed)
    X = clustered(rng, 120, 40)
    X -= X.mean(axis=0)
    labels = rng.permutation(np.arange(40) % 6).astype(np.int32)
    groups = Groups.from_labels(labels, 6)
    graph = graph_of(X, 8)
    linear = linear_curves(X, labels, graph, max_iter=400)
    kernelised = kernel_learnt(X, groups, graph, Scaling.linear(groups), max_iter=400)[2]
    gains = (1 - kernelised[:, -1]) / (1 - linear[:, -1])
    assert gains.min() > 0.97
    assert abs(gains.mean() - 1) < 0.01


@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_the_loss_falls_below_that_of_the_linear_learner(name):
    """Kernels can separate what planes can't: a ring around a core."""
    rng = np.random.default_rng(4)
    angles, radii = rng.uniform(0, 2 * np.pi, 160), np.repeat([0.3, 2.0], 80)
    ring = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    X = (ring + 0.1 * rng.standard_normal((160, 2))).astype(np.float32)
    groups = Groups.from_labels(np.zeros(2, int), 1)
    core = (np.arange(160) < 80)[:, None]
    graph = positive_pairs(np.where(core, np.arange(80), np.arange(80, 160)))  # all of a kind are neighbours
    plane = linear_curves(X, np.zeros(2, np.int32), graph)
    curves = kernel_learnt(X, groups, graph, forms(X, groups)[name][0])[2]
    assert curves[0, -1] < 0.2 < 0.6 < plane[0, -1]
    assert (np.diff(curves[0]) <= 0).all()


def test_the_result_does_not_depend_on_threads_nor_much_on_tiles(monkeypatch):
    X = clustered(np.random.default_rng(5), 50, 60)
    groups, graph = Groups.from_labels(np.arange(60) % 37, 37), graph_of(X, 5)
    form = forms(X, groups)["rbf"][0]
    expected = kernel_learnt(X, groups, graph, form)
    for array, other in zip(expected, kernel_learnt(X, groups, graph, form, 3), strict=True):
        np.testing.assert_array_equal(array, other)
    monkeypatch.setattr(kernel, "TILE_BYTES", 4 * 50 * 50 * 5)  # narrower tiles draw other random numbers
    narrow = kernel_learnt(X, groups, graph, form)
    assert narrow[2][:, -1].mean() == pytest.approx(expected[2][:, -1].mean(), abs=3e-3)
