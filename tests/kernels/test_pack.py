import numpy as np
import pytest

from projbank.bits import pack
from projbank.kernels.pack import all_finite, pack_above


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 31, 32, 33, 64, 71, 1000, 65_537])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_bits_are_those_of_a_comparison(n_rows, n_bits):
    rng = np.random.default_rng(n_bits)
    wide = rng.standard_normal((n_rows, n_bits + 5), dtype=np.float32)
    thresholds = rng.standard_normal(n_bits, dtype=np.float32)
    thresholds[::3] = wide[0, 2 : 2 + n_bits : 3]  # equal is not above
    for values in (wide[:, 2 : 2 + n_bits], np.ascontiguousarray(wide[:, 2 : 2 + n_bits])):
        codes = np.full((n_rows, (n_bits + 7) // 8), 255, np.uint8)
        assert pack_above(values, thresholds, codes)
        np.testing.assert_array_equal(codes, pack(values > thresholds))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_every_bad_value_is_noticed(value):
    X = np.random.default_rng(0).standard_normal((2, 71), dtype=np.float32)
    X[0, 0] = np.finfo(np.float32).max
    assert all_finite(X)
    codes = np.empty((2, 9), np.uint8)
    for column in range(71):
        bad = X.copy()
        bad[1, column] = value
        assert not all_finite(bad)
        assert not pack_above(bad, np.zeros(71, np.float32), codes)
