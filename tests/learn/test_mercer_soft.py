"""Soft kernel banks: a dimension serves several groups."""

import numpy as np
import pytest

from projbank import KernelProjectionBank, load
from projbank.learn.grouping import group_dimensions
from projbank.models.bank import group_columns
from projbank.rows.source import as_rows

KERNELS = {
    "rbf": lambda A, B, scale: np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / scale**2),
    "poly": lambda A, B, scale: (scale * A @ B.T + 1) ** 2,
    "linear": lambda A, B, scale: A @ B.T,
}


def data(n=60, n_features=40):
    return np.random.default_rng(0).standard_normal((n, n_features)).astype(np.float32)


def quick(n_bits, **params):
    return KernelProjectionBank(
        n_bits, **({"grouping": "soft", "n_basis": 30, "n_neighbors": 5, "max_iter": 3} | params)
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n_bits", "n_assign"), [(8, 2), (40, 3), (60, 2)])
def test_margins_are_those_of_the_formula(kernel, n_bits, n_assign):
    X = data()
    bank = quick(n_bits, kernel=kernel, degree=2, n_assign=n_assign).fit(X)
    assert len(bank.columns_) == n_assign * 40
    margins = bank.decision_function(X)
    for p in range(0, n_bits, 7):
        own = bank.columns_[bank.indptr_[p] : bank.indptr_[p + 1]]
        assert len(set(own)) == len(own) >= 1
        values = KERNELS[kernel](X[:, own].astype(float), bank.basis_[:, own].astype(float), float(bank.scales_[p]))
        expected = values @ bank.coefficients_[p].astype(float) - bank.biases_[p]
        np.testing.assert_allclose(margins[:, p], expected, atol=2e-3 * max(1, np.abs(expected).max()))


def test_groups_are_those_of_soft_kmeans():
    X = data()
    labels = group_dimensions("kmeans", as_rows(X), 8, np.random.default_rng(0), n_assign=2)
    bank = quick(8, grouping=labels).fit(X)
    indptr, columns = group_columns(labels, 8)
    np.testing.assert_array_equal(bank.indptr_, indptr)
    np.testing.assert_array_equal(bank.columns_, columns)


def test_a_saved_bank_gives_the_same_bits(tmp_path):
    X = data()
    bank = quick(50).fit(X)
    bank.save(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "bank.safetensors").transform(X), bank.transform(X))


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="at most the number of features, 40 times n_assign = 2"):
        quick(81).fit(data())
    with pytest.raises(ValueError, match="'n_assign' parameter of KernelProjectionBank"):
        quick(8, n_assign=0).fit(data())
