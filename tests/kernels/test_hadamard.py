import faiss
import numpy as np
import pytest
import scipy.linalg

from projbank.kernels.hadamard import hadamard_sample
from tests.reference.methods import hadamard

SIZES = [(1, 64), (63, 64), (64, 64), (65, 128), (200, 256), (512, 512), (513, 1024), (1, 2048), (2049, 4096)]


def transform(X, signs, size):
    out = np.full((len(X), size), np.nan, np.float32)
    hadamard_sample(X, signs, np.arange(size), size, out)
    return out


def test_the_reference_is_scipys_matrix():
    np.testing.assert_array_equal(hadamard(64), scipy.linalg.hadamard(64))


@pytest.mark.parametrize(("n_features", "size"), SIZES)
def test_whole_numbers_are_transformed_exactly(n_features, size):
    rng = np.random.default_rng(n_features)
    X = rng.integers(-50, 50, (3, n_features)).astype(np.float32)
    signs = rng.choice(np.array([-1, 1], np.float32), n_features)
    expected = (X * signs) @ scipy.linalg.hadamard(size)[:n_features]
    np.testing.assert_array_equal(transform(X, signs, size), expected)
    chosen = np.sort(rng.choice(size, min(size, 37), replace=False))
    some = np.empty((3, len(chosen)), np.float32)
    hadamard_sample(X, signs, chosen, size, some)
    np.testing.assert_array_equal(some, expected[:, chosen])


def test_strided_and_read_only_rows():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((20, 300), dtype=np.float32)
    signs = np.ones(100, np.float32)
    for view in (wide[:, 100:200], wide[::3, 7:107], wide[::-1, :100]):
        view.flags.writeable = False
        np.testing.assert_array_equal(transform(view, signs, 128), transform(view.copy(), signs, 128))


def test_twice_is_the_identity_beyond_65536_dimensions():
    size = 1 << 17
    X = np.random.default_rng(1).integers(-3, 4, (1, 65_537)).astype(np.float32)
    once = transform(X, np.ones(65_537, np.float32), size)
    twice = transform(once, np.ones(size, np.float32), size) / size
    np.testing.assert_array_equal(twice[:, :65_537], X)
    assert not twice[:, 65_537:].any()


def test_three_rounds_are_faiss_rotation():
    rotation = faiss.HadamardRotation(300, 7)
    X = np.random.default_rng(2).standard_normal((5, 300), dtype=np.float32)
    values = X
    for signs in (rotation.signs1, rotation.signs2, rotation.signs3):
        flips = faiss.vector_to_array(signs)[: values.shape[1]].astype(np.float32)
        values = transform(values, np.ascontiguousarray(flips), 512) / np.float32(np.sqrt(512))
    np.testing.assert_allclose(values, rotation.apply(X), atol=1e-5)
