import numpy as np
import pytest

from projbank.kernels.mercer_groups import center_matrix, mean_neighbor_distance, multiply_symmetric
from projbank.kernels.mercer_values import (
    LANES,
    arrange_basis,
    gather_groups,
    kernel_margins,
    kernel_matrix,
)


def naive(u, v, degree):
    """The formulas of the module, in float64."""
    u, v = u.astype(float), v.astype(float)
    if degree == 0:
        return np.exp2(-0.5 * ((u[:, None] - v[None]) ** 2).sum(axis=2))
    return (u @ v.T + 1) ** degree - 1


def bank(rng, n, sizes, degree, scale=0.6):
    """A basis in blocks, with its plain form."""
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    V = (scale * rng.standard_normal((n, indptr[-1]))).astype(np.float32)
    n_pad = -(-n // LANES) * LANES
    blocks, halves = np.empty(n_pad * indptr[-1], np.float32), np.empty(n_pad * len(sizes), np.float32)
    arrange_basis(V, indptr, degree, blocks, halves)
    coefficients = np.zeros((len(sizes), n_pad), np.float32)
    coefficients[:, :n] = rng.standard_normal((len(sizes), n))
    return V, indptr, (indptr, blocks, halves, degree), coefficients


SHAPES = [(1, 1, [1]), (5, 3, [3, 1]), (16, 4, [16, 16, 2]), (70, 9, [17, 5]), (33, 7, [40, 8])]


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
@pytest.mark.parametrize(("n", "n_rows", "sizes"), SHAPES)
def test_values_and_margins_agree_with_the_formulas(degree, n, n_rows, sizes):
    rng = np.random.default_rng(n + degree)
    V, indptr, arrays, coefficients = bank(rng, n, sizes, degree, scale=0.3)
    U = (0.3 * rng.standard_normal((n_rows, indptr[-1]))).astype(np.float32)
    biases = rng.standard_normal(len(sizes), dtype=np.float32)
    F = np.empty((n_rows, len(sizes)), np.float32)
    kernel_margins(U, *arrays, coefficients, biases, len(sizes), F)
    for p in range(len(sizes)):
        own = slice(indptr[p], indptr[p + 1])
        expected = naive(U[:, own], V[:, own], degree)
        K = np.full((n_rows, n), np.nan, np.float32)
        kernel_matrix(U, *arrays, p, n, K)
        size = np.abs(expected).max()
        np.testing.assert_allclose(K, expected, rtol=2e-6, atol=2e-6 * size)
        np.testing.assert_allclose(F[:, p], expected @ coefficients[p, :n] - biases[p], atol=1e-5 * n * max(1, size))


def test_the_exponential_against_numpy():
    """One dimension, v = 0: k = 2^(-u^2 / 2), over the whole range of float32 exponents."""
    arrays = bank(np.random.default_rng(0), 1, [1], 0, scale=0.0)[2]
    exponents = np.concatenate([np.linspace(0, 3, 4001), np.linspace(3, 124, 4001)])
    U = np.sqrt(2 * exponents).astype(np.float32)[:, None]
    K = np.empty((len(U), 1), np.float32)
    kernel_matrix(U, *arrays, 0, 1, K)
    exact = np.exp2((np.float32(-0.5) * (U * U)).astype(float))
    np.testing.assert_allclose(K, exact, rtol=3e-7)
    assert K[0, 0] == 1


@pytest.mark.parametrize("far", [1e3, 1e10, 1e25, 3e38])
def test_rows_far_off_give_0_not_nan(far):
    _, indptr, arrays, _ = bank(np.random.default_rng(1), 20, [6], 0)
    K = np.full((5, 20), np.nan, np.float32)
    kernel_matrix(np.full((5, indptr[-1]), far, np.float32), *arrays, 0, 20, K)
    assert (K >= 0).all()
    assert (K <= 1e-37).all()


@pytest.mark.parametrize("degree", [0, 3])
def test_a_row_gets_the_same_bits_alone_and_with_others(degree):
    rng = np.random.default_rng(2)
    _, indptr, arrays, coefficients = bank(rng, 50, [9, 16, 4], degree)
    U = rng.standard_normal((11, indptr[-1]), dtype=np.float32)
    biases = rng.standard_normal(3, dtype=np.float32)
    whole, one = np.empty((11, 3), np.float32), np.empty((1, 3), np.float32)
    kernel_margins(U, *arrays, coefficients, biases, 3, whole)
    for i in range(11):
        kernel_margins(U[i : i + 1], *arrays, coefficients, biases, 3, one)
        np.testing.assert_array_equal(one[0], whole[i])


@pytest.mark.parametrize("tile", [1, 2, 3, 5, 100])
def test_tiles_change_the_order_of_columns_only(tile):
    rng = np.random.default_rng(4)
    _, indptr, arrays, coefficients = bank(rng, 20, [9, 16, 4, 1, 7], 0)
    X = rng.standard_normal((6, indptr[-1]), dtype=np.float32)
    plain, tiled = np.empty((2, 6, indptr[-1]), np.float32)
    columns, ones, zeros = np.arange(indptr[-1], dtype=np.int32), np.ones_like(X[0]), np.zeros_like(X[0])
    gather_groups(X, indptr, columns, ones, zeros, 5, plain)
    gather_groups(X, indptr, columns, ones, zeros, tile, tiled)
    np.testing.assert_array_equal(plain, X)
    parts = [X[:, indptr[p] : indptr[min(p + tile, 5)]].ravel() for p in range(0, 5, tile)]
    np.testing.assert_array_equal(tiled.ravel(), np.concatenate(parts))
    biases = np.zeros(5, np.float32)
    margins, again = np.empty((2, 6, 5), np.float32)
    kernel_margins(plain, *arrays, coefficients, biases, 5, margins)
    kernel_margins(tiled, *arrays, coefficients, biases, tile, again)
    np.testing.assert_array_equal(again, margins)


def test_gathering_takes_any_layout_and_sees_bad_values():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((6, 40), dtype=np.float32)
    columns = rng.integers(0, 40, 55).astype(np.int32)  # columns may come several times
    scale, shift = rng.standard_normal((2, 55), dtype=np.float32)
    indptr = np.array([0, 55])
    for rows in (X, np.repeat(X, 2, axis=0)[::2], X[:, ::-1][:, ::-1]):
        U = np.empty((6, 55), np.float32)
        assert gather_groups(rows, indptr, columns, scale, shift, 1, U)
        np.testing.assert_array_equal(U, X[:, columns] * scale - shift)
    for value in (np.nan, np.inf, -np.inf):
        for j in (3, 37, 39):
            bad = np.ascontiguousarray(X[:, :38]) if j == 37 else X.copy()
            bad[4, j] = value
            assert not gather_groups(bad, indptr, np.minimum(columns, 37), scale, shift, 1, U)


@pytest.mark.parametrize(("n", "m", "k"), [(2, 1, 1), (30, 3, 4), (41, 16, 40)])
def test_mean_neighbour_distance(n, m, k):
    X = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    X[-1] = X[0]
    distances = np.sqrt(((X[:, None] - X[None]).astype(float) ** 2).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    expected = np.sort(distances, axis=1)[:, :k].mean()
    assert mean_neighbor_distance(np.ascontiguousarray(X.T), k) == pytest.approx(expected, rel=1e-6)


def test_equal_samples_are_exactly_0_apart():
    assert mean_neighbor_distance(np.full((5, 9), 0.1, np.float32), 3) == 0


def symmetric(n, seed=0):
    K = np.random.default_rng(seed).random((n, n), dtype=np.float32)
    return K + K.T + 100


@pytest.mark.parametrize("n", [1, 8, 21])
def test_upper_halves_are_centred_in_place(n):
    K, means = symmetric(n), np.empty(n)
    expected = K.astype(float) - K.mean(axis=0, dtype=float)
    expected -= expected.mean(axis=1, keepdims=True)
    own = K.mean(axis=1, dtype=float)
    peak = center_matrix(K, means)
    np.testing.assert_allclose(means, own, rtol=1e-12)
    np.testing.assert_allclose(np.triu(K), np.triu(expected), atol=1e-5)
    assert peak == pytest.approx(np.abs(expected).max() + np.abs(own - own.mean()).max(), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 50, 129])
def test_symmetric_products_read_upper_halves_only(n):
    whole = np.stack([symmetric(n, seed) for seed in range(5)])
    W = np.random.default_rng(n).standard_normal((3, n), dtype=np.float32)
    firsts, F = n * np.array([4, 0, 2]), np.full((3, n), np.nan, np.float32)
    lower = np.tril_indices(n, -1)
    halves = whole.copy()
    halves[:, lower[0], lower[1]] = np.nan
    multiply_symmetric(halves.reshape(-1, n), firsts, W, F)
    expected = np.einsum("tij,tj->ti", whole[[4, 0, 2]].astype(float), W)
    np.testing.assert_allclose(F, expected, rtol=1e-5, atol=1e-3)
