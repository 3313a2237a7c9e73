import numpy as np
import pytest
import scipy.sparse as sp

from projbank.bits import pack, unpack
from projbank.kernels.encode import code_rows, margin_rows, transposed_product

SIZES = [(1, 1, 1), (1, 3, 2), (2, 65, 7), (7, 64, 64), (8, 64, 8), (9, 1001, 13), (16, 40, 9), (23, 130, 129)]


def naive_margins(X, labels, weights, biases):
    """One dimension after another; labels and weights may hold several groups for each."""
    margins = np.zeros((len(X), len(biases)), np.float32)
    times = len(labels) // X.shape[1]
    for e in range(len(labels)):
        margins[:, labels[e]] += weights[e] * X[:, e // times]
    return margins - biases


def random_bank(rng, n_features, n_bits, order="random"):
    labels = np.arange(n_features) * n_bits // n_features if order == "contiguous" else np.arange(n_features) % n_bits
    labels = rng.permutation(labels) if order == "random" else labels
    return (
        labels.astype(np.uint32),
        rng.standard_normal(n_features, dtype=np.float32),
        rng.standard_normal(n_bits, dtype=np.float32),
    )


def soft_bank(rng, n_features, n_bits, n_assign):
    """Every dimension in `n_assign` different groups."""
    labels = np.stack([rng.choice(n_bits, n_assign, replace=False) for _ in range(n_features)])
    return (
        labels.ravel().astype(np.uint32),
        rng.standard_normal(n_assign * n_features, dtype=np.float32),
        rng.standard_normal(n_bits, dtype=np.float32),
    )


def run(X, bank):
    n_bits = len(bank[2])
    codes = np.full((len(X), (n_bits + 7) // 8), 255, np.uint8)
    margins = np.full((len(X), n_bits), np.nan, np.float32)
    finite = code_rows(X, *bank, codes), margin_rows(X, *bank, margins)
    return codes, margins, finite


@pytest.mark.parametrize("order", ["random", "contiguous", "interleaved"])
@pytest.mark.parametrize("size", SIZES)
def test_codes_and_margins_equal_the_naive_loop_to_the_bit(size, order):
    n_rows, n_features, n_bits = size
    rng = np.random.default_rng(hash(size) % 2**32)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    bank = random_bank(rng, n_features, n_bits, order)
    expected = naive_margins(X, *bank)
    codes, margins, finite = run(X, bank)
    assert finite == (True, True)
    np.testing.assert_array_equal(margins, expected)
    np.testing.assert_array_equal(codes, pack(expected > 0))


@pytest.mark.parametrize("n_assign", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [(1, 1, 5), (1, 3, 9), (2, 65, 7), (8, 64, 130), (9, 1001, 13), (23, 130, 129)])
def test_soft_banks_equal_the_naive_loop_to_the_bit(size, n_assign):
    n_rows, n_features, n_bits = size
    rng = np.random.default_rng([n_rows, n_assign])
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    bank = soft_bank(rng, n_features, n_bits, n_assign)
    expected = naive_margins(X, *bank)
    codes, margins, finite = run(X, bank)
    assert finite == (True, True)
    np.testing.assert_array_equal(margins, expected)
    np.testing.assert_array_equal(codes, pack(expected > 0))
    X[-1, -1] = np.nan
    assert run(X, bank)[2] == (False, False)


def test_soft_banks_equal_scipy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((19, 65_537), dtype=np.float32)[:, :65_537]
    labels, weights, biases = soft_bank(rng, 65_537, 70_001, 2)
    matrix = sp.csr_array((weights, (labels, np.repeat(np.arange(65_537), 2))), shape=(70_001, 65_537))
    expected = (matrix.astype(float) @ X.T).T - biases
    codes, margins, _ = run(X, (labels, weights, biases))
    np.testing.assert_allclose(margins, expected, atol=1e-4)
    sure = np.abs(expected) > 1e-4
    assert (unpack(codes, 70_001) == (expected > 0))[sure].all()


def test_more_than_65536_dimensions_and_groups():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 65_537), dtype=np.float32)
    for n_bits in (5, 65_537):
        bank = random_bank(rng, 65_537, n_bits)
        expected = naive_margins(X, *bank)
        codes, margins, _ = run(X, bank)
        np.testing.assert_array_equal(margins, expected)
        np.testing.assert_array_equal(codes, pack(expected > 0))


def test_strided_and_read_only_rows():
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((40, 300), dtype=np.float32)
    bank = random_bank(rng, 100, 11)
    for view in (wide[:, 100:200], wide[::3, 7:107], wide[::-1, :100]):
        view.flags.writeable = False
        expected = naive_margins(view, *bank)
        codes, margins, _ = run(view, bank)
        np.testing.assert_array_equal(margins, expected)
        np.testing.assert_array_equal(codes, pack(expected > 0))


def test_a_sum_equal_to_its_bias_is_bit_0():
    X = np.zeros((9, 4), np.float32)
    labels, weights, biases = (
        np.arange(4, dtype=np.uint32),
        np.ones(4, np.float32),
        np.array([0, -0.0, 1, -1], np.float32),
    )
    codes, _, _ = run(X, (labels, weights, biases))
    np.testing.assert_array_equal(codes, np.full((9, 1), 0b1000))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 7, 8, 9])
def test_every_bad_value_is_noticed(value, row):
    rng = np.random.default_rng(2)
    bank = random_bank(rng, 37, 5)
    bank[1][3] = 0  # a weight of 0 must not hide it
    for column in (0, 3, 36):
        X = rng.standard_normal((10, 37), dtype=np.float32)
        X[row, column] = value
        assert run(X, bank)[2] == (False, False)


@pytest.mark.parametrize("size", SIZES)
def test_transposed_product(size):
    n_rows, n_features, n_bits = size
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    labels = random_bank(rng, n_features, n_bits)[0]
    slopes = rng.standard_normal((n_rows, n_bits), dtype=np.float32)
    out = np.empty(n_features, np.float32)
    transposed_product(X, labels, slopes, 0, n_features, out)
    expected = (X.astype(float) * slopes[:, labels]).sum(axis=0)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5 * np.sqrt(n_rows))
    parts = np.empty(n_features, np.float32)
    for first in range(0, n_features, 24):
        transposed_product(X, labels, slopes, first, min(first + 24, n_features), parts)
    np.testing.assert_array_equal(parts, out)
