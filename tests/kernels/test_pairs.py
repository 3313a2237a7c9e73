import numpy as np
import pytest
import scipy.sparse as sp

from projbank.kernels.pairs import gather_columns, pair_hinge, project_groups, project_slopes
from tests.reference.paper import hinge_sum

T = 21  # a full lot of 16 groups and one of 5

VALUES = {
    "random": lambda rng, n: 1.5 * rng.standard_normal((T, n)),
    "tied": lambda rng, n: rng.choice([-2, -1, -0.5, 0.0, 0.5, 1, 2], (T, n)),
    "two values": lambda rng, n: rng.choice([-1.0, 1.0], (T, n)),
    "zero": lambda rng, n: np.zeros((T, n)),
    "positive": lambda rng, n: np.abs(rng.standard_normal((T, n))),
    "negative": lambda rng, n: -np.abs(rng.standard_normal((T, n))),
    "large": lambda rng, n: 100 * rng.standard_normal((T, n)),
    "tiny": lambda rng, n: 1e-20 * rng.standard_normal((T, n)),
    "signed zeros": lambda rng, n: rng.choice([-0.0, 0.0, 3.0, -3.0], (T, n)),
}


def random_graph(rng, n, share=0.1):
    edges = rng.random((n, n)) < share
    edges |= edges.T
    np.fill_diagonal(edges, True)
    graph = sp.csr_array(edges)
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int32), np.where(edges, 1.0, -1.0)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_loss_and_gradient_equal_the_sum_over_all_pairs(kind, n):
    rng = np.random.default_rng(n)
    indptr, indices, labels = random_graph(rng, n)
    F = VALUES[kind](rng, n).astype(np.float32)
    G = np.full_like(F, np.nan)
    losses, kinks = np.empty(T), np.empty(T, np.int64)
    pair_hinge(F, indptr, indices, G, losses, kinks)
    largest = max(1.0, float(np.abs(F).max()))
    for t in range(0, T, 5):
        total, slope, at_zero = hinge_sum(F[t], labels)
        assert losses[t] == pytest.approx(total, rel=1e-6, abs=1e-6 * n * n * largest**2)
        np.testing.assert_allclose(G[t], slope, rtol=1e-5, atol=1e-6 * n * largest)
        assert kinks[t] == at_zero


def test_neighbours_of_many_blocks():
    """More samples than neighbours are visited at a time; the sums over all pairs are written out in NumPy."""
    rng = np.random.default_rng(8)
    n = 9000
    edges = sp.random_array((n, n), density=5e-4, rng=rng, format="csr")
    graph = (edges + edges.T + sp.eye_array(n, format="csr")).tocsr()
    graph.sort_indices()
    F = rng.standard_normal((T, n)).astype(np.float32)
    G, losses, kinks = np.empty_like(F), np.empty(T), np.empty(T, np.int64)
    pair_hinge(F, graph.indptr.astype(np.int64), graph.indices.astype(np.int32), G, losses, kinks)
    f = F[2].astype(float)
    products = np.outer(f, f)
    hinges = np.maximum(0, 1 + products)
    slope = 2 * (products > -1) @ f
    rows, columns = graph.nonzero()
    s = f[rows] * f[columns]
    total = hinges.sum() + (np.maximum(0, 1 - s) - np.maximum(0, 1 + s)).sum()
    np.subtract.at(slope, rows, 2 * ((s < 1).astype(float) + (s > -1)) * f[columns])
    assert losses[2] == pytest.approx(total, rel=1e-6)
    np.testing.assert_allclose(G[2], slope, rtol=1e-5, atol=0.01)


def test_complete_and_empty_graphs():
    rng = np.random.default_rng(5)
    F = rng.standard_normal((T, 30)).astype(np.float32)
    for share in (0.0, 1.0):
        indptr, indices, labels = random_graph(rng, 30, share)
        G, losses, kinks = np.empty_like(F), np.empty(T), np.empty(T, np.int64)
        pair_hinge(F, indptr, indices, G, losses, kinks)
        total, slope, _ = hinge_sum(F[3], labels)
        assert losses[3] == pytest.approx(total, rel=1e-6)
        np.testing.assert_allclose(G[3], slope, rtol=1e-5, atol=1e-4)


def test_projection_and_its_chain_rule():
    rng = np.random.default_rng(6)
    n, sizes = 37, [1, 5, 2, 16]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    firsts = np.array([20, 3, 30, 9])  # groups may lie anywhere in XT
    XT = rng.standard_normal((32, n), dtype=np.float32)
    weights = rng.standard_normal(starts[-1], dtype=np.float32)
    biases = rng.standard_normal(4, dtype=np.float32)
    F = np.empty((4, n), np.float32)
    project_groups(XT, firsts, starts, weights, biases, F)
    G = rng.standard_normal((4, n), dtype=np.float32)
    weight_slopes, bias_slopes = np.empty(starts[-1], np.float32), np.empty(4, np.float32)
    project_slopes(XT, firsts, starts, G, weight_slopes, bias_slopes)
    for t in range(4):
        own = slice(starts[t], starts[t + 1])
        block = XT[firsts[t] : firsts[t] + sizes[t]]
        np.testing.assert_allclose(F[t], weights[own] @ block - biases[t], atol=1e-5)
        np.testing.assert_allclose(weight_slopes[own], block @ G[t], atol=1e-4)
        assert bias_slopes[t] == pytest.approx(-G[t].sum(), abs=1e-4)


@pytest.mark.parametrize("n", [1, 15, 16, 33])
def test_gathered_columns(n):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, 50), dtype=np.float32)
    columns = rng.permutation(50)[:21]
    XT = np.zeros((21, n + 4), np.float32)
    gather_columns(X, columns, XT, 3)
    np.testing.assert_array_equal(XT[:, 3 : n + 3], X[:, columns].T)
    assert not XT[:, :3].any()
    assert not XT[:, n + 3 :].any()
