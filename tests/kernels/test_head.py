import numpy as np
import pytest

from projbank.kernels.head import WIDTH, multiply, panels


def product(X, matrix):
    out = np.full((len(X), WIDTH * -(-matrix.shape[1] // WIDTH)), np.nan, np.float32)
    multiply(X, panels(matrix), out)
    return out[:, : matrix.shape[1]]


def one_after_the_other(X, matrix):
    """Every product and sum rounded once: float64 holds a product of two float32 exactly."""
    sums = np.zeros((len(X), matrix.shape[1]), np.float32)
    for k in range(len(matrix)):
        sums = (X[:, k, None].astype(np.float64) * matrix[k] + sums).astype(np.float32)
    return sums


@pytest.mark.parametrize("size", [(1, 1, 1), (6, 5, 16), (7, 33, 17), (13, 512, 7), (5, 1025, 40), (48, 700, 64)])
def test_products_add_up_in_order(size):
    n, depth, d = size
    rng = np.random.default_rng(sum(size))
    X, matrix = rng.standard_normal((n, depth), np.float32), rng.standard_normal((depth, d), np.float32)
    found = product(X, matrix)
    np.testing.assert_allclose(found, X.astype(float) @ matrix, rtol=0, atol=1e-5 * depth)
    assert np.mean(found == one_after_the_other(X, matrix)) > 0.99  # float64 rounds twice once in many


def test_a_row_gets_the_same_numbers_in_any_block():
    rng = np.random.default_rng(0)
    X, matrix = rng.standard_normal((31, 1234), np.float32), rng.standard_normal((1234, 90), np.float32)
    whole = product(X, matrix)
    for n in (1, 2, 5, 6, 7, 12):
        parts = [product(X[start : start + n], matrix) for start in range(0, len(X), n)]
        np.testing.assert_array_equal(np.vstack(parts), whole)


def test_whole_numbers_are_exact():
    rng = np.random.default_rng(1)
    X, matrix = rng.integers(-9, 9, (20, 600)), rng.integers(-9, 9, (600, 33))
    np.testing.assert_array_equal(product(X.astype(np.float32), matrix.astype(np.float32)), X @ matrix)
