"""Packed codes as numbers for other estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from projbank import ProjectionBank
from projbank.bits import pack
from projbank.unpacker import BitUnpacker


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 65])
def test_every_bit_is_a_number(n_bits):
    bits = np.random.default_rng(n_bits).random((5, n_bits)) > 0.5
    found = BitUnpacker(n_bits).fit_transform(pack(bits))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, 2 * bits - 1)
    np.testing.assert_array_equal(BitUnpacker().fit_transform(pack(bits))[:, :n_bits], found)


def test_in_a_pipeline_codes_classify():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.standard_normal((200, 64)).astype(np.float32) + 2 * y[:, None] * rng.standard_normal(64)
    model = make_pipeline(ProjectionBank(32, solver="random"), BitUnpacker(32), LinearSVC())
    assert clone(model).fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.9


def test_errors():
    codes = np.zeros((3, 2), np.uint8)
    with pytest.raises(TypeError, match="dtype uint8"):
        BitUnpacker().fit(codes.astype(float))
    with pytest.raises(ValueError, match="must have 3 bytes per code"):
        BitUnpacker(20).fit(codes)
    with pytest.raises(ValueError, match="'n_bits' parameter of BitUnpacker"):
        BitUnpacker(0).fit(codes)
    with pytest.raises(ValueError, match="must have 2 bytes per code"):
        BitUnpacker().fit(codes).transform(codes[:, :1])
    with pytest.raises(ValueError, match="not fitted"):
        BitUnpacker().transform(codes)
