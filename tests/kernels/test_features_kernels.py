"""Kernels of the encoders against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from projbank.kernels import features as kernels


def test_shifted_exp_equals_exp():
    scores = np.linspace(-120, 0, 7 * 901, dtype=np.float32).reshape(7, 901)
    shifts = scores.max(axis=1)
    expected = np.exp(scores.astype(np.float64) - shifts[:, None])
    kernels.shifted_exp(scores, shifts)
    np.testing.assert_allclose(scores, np.where(expected > 1e-30, expected, 0), rtol=5e-7, atol=2e-30)


def test_shifted_exp_has_no_denormals():
    scores = np.full((3, 5), -1e30, np.float32)
    scores[:, 0] = 0
    kernels.shifted_exp(scores, np.zeros(3, np.float32))
    np.testing.assert_array_equal(scores, [[1, 0, 0, 0, 0]] * 3)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (33, 128)])
def test_with_squares(shape):
    rng = np.random.default_rng(0)
    X, centre = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[1]).astype(np.float32)
    out = np.empty((shape[0], 2 * shape[1]), np.float32)
    kernels.with_squares(X, centre, out)
    np.testing.assert_array_equal(out, np.concatenate([X - centre, (X - centre) ** 2], axis=1))


def test_scale_rows_gives_shares_and_their_sums():
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=(9, 11)).astype(np.float32)
    totals, sums = weights.sum(axis=1), np.ones(11, np.float32)
    expected = weights / totals[:, None]
    kernels.scale_rows(weights, totals, sums)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    np.testing.assert_allclose(sums, 1 + expected.sum(axis=0), rtol=1e-6)


def test_sum_by_label_equals_add_at():
    rng = np.random.default_rng(0)
    X, labels = rng.integers(-9, 9, (50, 7)).astype(np.float32), rng.integers(0, 6, 50)
    sums, counts = np.zeros((6, 7), np.float32), np.zeros(6, np.int64)
    kernels.sum_by_label(X, labels, sums, counts)
    expected = np.zeros((6, 7), np.float32)
    np.add.at(expected, labels, X)
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(counts, np.bincount(labels, minlength=6))
