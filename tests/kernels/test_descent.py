import numpy as np
import pytest

from projbank.kernels.descent import centre, descend


@pytest.mark.parametrize("size", [(1, 1), (3, 7), (5, 300), (2, 65537)])
def test_rows_are_centred_and_their_squares_added_up(size):
    rng = np.random.default_rng(sum(size))
    rows, means = rng.standard_normal(size, np.float32), rng.standard_normal(size[1]).astype(np.float32)
    factors = rng.random(size[1], np.float32)
    centred, halves = np.empty(size, np.float32), np.empty(size[0])
    centre(rows, means, factors, centred, halves)
    np.testing.assert_array_equal(centred, (rows - means) * factors)
    np.testing.assert_allclose(halves, (centred.astype(float) ** 2).sum(axis=1) / 2, rtol=1e-10)


def one_bit_after_the_other(matrix, numbers, signs, ends, weights, rest_weights, growth, left, rest, m):
    """Each bit takes the value with the smaller loss, which is computed anew; returns the last losses' halves."""
    margins = np.full(len(signs), np.nan)

    def loss(g):
        total = 0.0
        for end, weight, rest_weight, error, number in zip(ends, weights, rest_weights, left, rest, strict=True):
            e = error - matrix[:, :end] @ signs[:end]
            total += weight * e @ e + g * rest_weight * (number - numbers[:end] @ signs[:end]) ** 2
        return total

    for g in growth:
        for j in range(m):
            losses = []
            for value in (-1, 1):
                signs[j] = value
                losses.append(loss(g))
            signs[j] = 1 if losses[0] > losses[1] else -1
            margins[j] = (losses[0] - losses[1]) / 4
    return margins


@pytest.mark.parametrize(
    ("n_bits", "m", "ends"), [(1, 1, [1]), (9, 9, [9]), (40, 40, [8, 16, 40]), (40, 12, [8, 16, 40])]
)
def test_bits_take_the_value_with_the_smaller_loss(n_bits, m, ends):
    rng = np.random.default_rng(n_bits + m)
    n, k = 6, 11
    ends, weights = np.array(ends), np.append(np.full(len(ends) - 1, 0.3), 1).astype(np.float32)
    matrix = rng.standard_normal((k, n_bits)).astype(np.float32)
    shares, start = rng.standard_normal((2, n, n_bits)).astype(np.float32)
    left, rest = rng.standard_normal((len(ends), n, k)), rng.standard_normal((len(ends), n))
    growth = np.array([0.1, 1], np.float32)
    count = np.array([weights[ends > j].sum() for j in range(m)])
    gram = (matrix[:, :m].T @ matrix[:, :m] * np.minimum(count[:, None], count)).astype(np.float32)
    signs = np.where(start > 0, np.float32(1), np.float32(-1))
    expected = signs.astype(float)
    parts = [left[p] - signs[:, :end] @ matrix[:, :end].T for p, end in enumerate(ends)]
    fields = [
        sum(w * part @ matrix[:, j] for w, part, e in zip(weights, parts, ends, strict=True) if e > j) for j in range(m)
    ]
    rests = np.stack([rest[p] - (shares[:, :e] * signs[:, :e]).sum(axis=1) for p, e in enumerate(ends)], axis=1)
    margins = np.zeros((n, n_bits), np.float32)
    fields = np.ascontiguousarray(np.stack(fields, axis=1), np.float32)
    descend(gram, shares, ends, weights**2, growth, rests.astype(np.float32), fields, signs, margins)
    for i in range(n):
        wanted = one_bit_after_the_other(
            matrix, shares[i], expected[i], ends, weights, weights**2, growth, left[:, i], rest[:, i], m
        )
        np.testing.assert_array_equal(signs[i], expected[i])
        np.testing.assert_allclose(margins[i, :m], wanted[:m], atol=1e-3)
    np.testing.assert_array_equal(margins[:, :m] > 0, signs[:, :m] > 0)
    assert not margins[:, m:].any()
