"""Packing and coding hold for any shape: hypothesis looks for the smallest one that breaks them."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from projbank.bits import code_bytes, pack, unpack
from projbank.models.bank import Bank
from projbank.rows.source import as_rows

SMALL = st.floats(-8, 8, width=32)


@given(hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=70)))
def test_bits_survive_packing_in_the_order_of_faiss(bits):
    codes = pack(bits)
    assert codes.shape == (len(bits), code_bytes(bits.shape[1]))
    np.testing.assert_array_equal(unpack(codes, bits.shape[1]), bits)
    for p in range(bits.shape[1]):
        np.testing.assert_array_equal((codes[:, p // 8] >> (p % 8)) & 1, bits[:, p])
    padding = 8 * codes.shape[1] - bits.shape[1]
    assert not padding or not (codes[:, -1] >> (8 - padding)).any()


@st.composite
def banks(draw):
    """A bank of any shape, some dimensions serving several bits, and rows for it."""
    n_features, n_bits = draw(st.integers(1, 130)), draw(st.integers(1, 40))
    planes, n = draw(st.integers(1, 3)), draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = rng.integers(0, n_bits, (planes, n_features)).astype(np.int32)
    weights = rng.standard_normal(labels.shape, dtype=np.float32)
    if planes == 1 and draw(st.booleans()):
        labels, weights = labels[0], weights[0]
    rows = draw(hnp.arrays(np.float32, (n, n_features), elements=SMALL, fill=st.just(np.float32(0))))
    return Bank(labels, weights, rng.standard_normal(n_bits, dtype=np.float32)), rows


@settings(max_examples=60, deadline=None)
@given(banks(), st.integers(1, 4), st.integers(1, 3))
def test_codes_are_those_of_the_literal_sums_in_any_form_and_number_of_threads(bank_and_rows, n_threads, step):
    bank, rows = bank_and_rows
    sums = np.zeros((len(rows), bank.n_bits), np.float32)
    labels, weights = np.atleast_2d(bank.labels), np.atleast_2d(bank.weights)
    for j in range(rows.shape[1]):  # dimension after dimension, as the kernel adds
        for plane in range(len(labels)):
            sums[:, labels[plane, j]] += weights[plane, j] * rows[:, j]
    margins = sums - bank.biases
    strided = np.repeat(rows, step, axis=0)[::step]
    forms = (rows, strided, np.asfortranarray(rows), rows.astype(">f8"), sp.csr_array(rows))
    for form in forms:
        out = np.empty((len(rows), code_bytes(bank.n_bits)), np.uint8)
        bank.write(as_rows(form), out, n_threads=n_threads)
        np.testing.assert_array_equal(out, pack(margins > 0))
        np.testing.assert_array_equal(bank.margins(as_rows(form), n_threads=n_threads), margins)
