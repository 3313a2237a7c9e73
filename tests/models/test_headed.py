import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projbank.bits import unpack
from projbank.models.bank import HeadedBank
from projbank.models.file import ModelFileError
from projbank.rows.source import as_rows


def draw(rng, n_features, n_sums, rank, n_bits, n_assign=1):
    planes = [rng.permutation(np.arange(n_features) % n_sums) for _ in range(n_assign)]
    labels = np.array(planes[0] if n_assign == 1 else planes, np.int32)
    floats = (rng.standard_normal(shape, np.float32) for shape in (n_sums, (n_sums, rank), (rank, n_bits), n_bits))
    return HeadedBank(labels, rng.standard_normal(labels.shape, np.float32), *floats)


def literal_margins(bank, X):
    sums = np.zeros((len(X), len(bank.centers)))
    for labels, weights in zip(np.atleast_2d(bank.labels), np.atleast_2d(bank.weights), strict=True):
        for j, (group, weight) in enumerate(zip(labels, weights, strict=True)):
            sums[:, group] += float(weight) * X[:, j]
    return (sums - bank.centers) @ bank.inner.astype(float) @ bank.outer.astype(float) - bank.biases


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(1, 60),
    sizes=st.tuples(st.integers(1, 200), st.integers(1, 50), st.integers(1, 20), st.integers(1, 70)),
    n_assign=st.integers(1, 2),
    seed=st.integers(0, 100),
)
def test_margins_are_the_formula_and_codes_their_signs(n, sizes, n_assign, seed):
    n_features, n_sums, rank, n_bits = sizes
    rng = np.random.default_rng(seed)
    bank = draw(rng, n_features, n_sums, rank, n_bits, n_assign)
    X = rng.standard_normal((n, n_features), np.float32)
    margins = bank.margins(as_rows(X))
    scale = 1e-5 * (1 + np.abs(literal_margins(bank, np.abs(X))).max() + rank * n_sums)
    np.testing.assert_allclose(margins, literal_margins(bank, X), rtol=1e-4, atol=scale)
    codes = np.empty((n, -(-n_bits // 8)), np.uint8)
    bank.write(as_rows(X), codes)
    np.testing.assert_array_equal(unpack(codes, n_bits), margins > 0)


def test_a_row_gets_the_same_bits_alone_in_any_block_and_on_any_threads():
    rng = np.random.default_rng(3)
    bank = draw(rng, 65_537, 300, 20, 77)
    X = rng.standard_normal((260, 65_537), np.float32)
    whole = np.empty((260, 10), np.uint8)
    bank.write(as_rows(X), whole)
    for n_threads in (2, 3):
        again = np.empty_like(whole)
        bank.write(as_rows(X), again, n_threads=n_threads)
        np.testing.assert_array_equal(again, whole)
    for i in (0, 7, 259):
        alone = np.empty((1, 10), np.uint8)
        bank.write(as_rows(X[i : i + 1]), alone)
        np.testing.assert_array_equal(alone[0], whole[i])


def test_bad_values_are_named():
    bank = draw(np.random.default_rng(0), 40, 8, 3, 9)
    X = np.zeros((100, 40), np.float32)
    X[61, 5] = np.nan
    with pytest.raises(ValueError, match="NaN at row 61, column 5"):
        bank.margins(as_rows(X))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("labels", lambda array: array + 8),
        ("labels", lambda array: array.astype(np.int64)),
        ("weights", lambda array: array[:-1]),
        ("centers", lambda array: array[:-1]),
        ("inner", lambda array: array.T),
        ("outer", lambda array: array[:, :-1]),
        ("outer", lambda array: np.full_like(array, np.inf)),
        ("biases", lambda array: array[None]),
        ("biases", lambda array: array[:0]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, damage):
    bank = draw(np.random.default_rng(0), 40, 8, 3, 9)
    assert HeadedBank.of_arrays(bank.arrays, {}).n_bits == 9
    with pytest.raises(ModelFileError):
        HeadedBank.of_arrays(bank.arrays | {name: damage(bank.arrays[name])}, {})
