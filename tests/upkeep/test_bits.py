"""Figures of codes against their definitions, written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projbank.bits import pack
from projbank.upkeep.bits import bit_figures, effective_bits, ones_share


def literal(bits):
    """Dead, duplicate, unbalanced and shared, by comparing everything with everything."""
    d = bits.shape[1]
    columns = [tuple(column) for column in bits.T.astype(int)]
    dead = [len(set(column)) == 1 for column in columns]
    opposite = [tuple(1 - bit for bit in column) for column in columns]
    duplicate = sum(
        not dead[p] and any(columns[q] in (columns[p], opposite[p]) for q in range(p) if not dead[q]) for p in range(d)
    )
    unbalanced = sum(not dead[p] and not 0.1 <= np.mean(columns[p]) <= 0.9 for p in range(d))
    rows = [tuple(row) for row in bits]
    return sum(dead), duplicate, unbalanced, sum(rows.count(row) > 1 for row in rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 30), st.integers(0, 2**31), st.floats(0, 1))
def test_counts_are_those_of_the_definitions(n, d, seed, share):
    bits = np.random.default_rng(seed).random((n, d)) < share
    found = bit_figures(pack(bits), d, seed % 7)
    assert (found.dead, found.duplicate, found.unbalanced, found.shared) == literal(bits)
    np.testing.assert_allclose(ones_share(pack(bits), d), bits.mean(axis=0))


def test_a_bit_and_its_opposite_say_the_same():
    bit = np.random.default_rng(0).random(50) < 0.5
    assert bit_figures(pack(np.stack([bit, ~bit, bit], axis=1)), 3).duplicate == 2


def test_stray_bits_do_not_count():
    codes = np.array([[0b101], [0b001]], np.uint8)
    assert bit_figures(codes, 2).shared == 2


@pytest.mark.parametrize("d", [7, 64, 300])
def test_effective_bits_of_all_pairs(d):
    bits = np.random.default_rng(d).random((40, d)) < 0.5
    distances = np.array([np.mean(bits[i] != bits[j]) for i in range(40) for j in range(i)])
    expected = distances.mean() * (1 - distances.mean()) / distances.var()
    assert effective_bits(pack(bits), d) == pytest.approx(expected, rel=1e-5)


def test_independent_fair_bits_are_all_effective_and_repeated_ones_are_not():
    bits = np.random.default_rng(3).random((1500, 128)) < 0.5
    assert effective_bits(pack(bits), 128) == pytest.approx(128, rel=0.05)
    assert effective_bits(pack(np.repeat(bits[:, :32], 4, axis=1)), 128) == pytest.approx(32, rel=0.05)


def test_codes_that_are_all_alike():
    found = bit_figures(np.zeros((5, 2), np.uint8), 16)
    assert (found.dead, found.duplicate, found.effective, found.shared) == (16, 0, 0.0, 5)
