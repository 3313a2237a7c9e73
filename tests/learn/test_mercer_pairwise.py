"""The RBF kernel with a width of each pair, against its formula."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from projbank import KernelProjectionBank, load
from projbank.models.mercer import PairwiseRadial
from tests.golden.cases import vectors

FEW = {"sigma": "pairwise", "sigma_neighbors": 4, "sigma_factor": 2.0, "n_basis": 50, "n_neighbors": 8, "max_iter": 5}


def literal(rows, basis, k, factor, *, same=False):
    """Values by the formula, in double precision."""
    distances, among = cdist(rows, basis), cdist(basis, basis)
    np.fill_diagonal(among, np.inf)
    widths = np.sort(among, axis=1)[:, :k].mean(axis=1)
    own = widths if same else np.sort(distances, axis=1)[:, :k].mean(axis=1)
    sigma = factor * (own[:, None] + widths) / 2
    return np.exp(-(distances**2) / sigma**2)


@pytest.mark.parametrize(("n", "m", "k"), [(2, 1, 1), (9, 3, 4), (33, 7, 10), (5, 2, 10)])
def test_values_are_those_of_the_formula(n, m, k):
    rng = np.random.default_rng(n)
    rows, basis = (rng.standard_normal((size, m)).astype(np.float32) for size in (6, n))
    form, K = PairwiseRadial(k, 1.5), np.empty((n, n), np.float32)
    widths = form.matrix(basis, K)
    np.testing.assert_allclose(K, literal(basis, basis, min(k, n - 1), 1.5, same=True), atol=1e-6)
    np.testing.assert_array_equal(K, K.T)
    among = cdist(basis, basis)
    np.fill_diagonal(among, np.inf)
    np.testing.assert_allclose(widths, np.sort(among, axis=1)[:, :k][:, : n - 1].mean(axis=1), rtol=1e-5)
    if k < n:
        np.testing.assert_allclose(form.values(rows, basis, widths), literal(rows, basis, k, 1.5), atol=1e-6)


def test_equal_samples_have_the_value_1_and_no_nan_comes_of_them():
    basis = np.zeros((8, 3), np.float32)
    basis[7] = 1
    K = np.empty((8, 8), np.float32)
    widths = PairwiseRadial(3, 1.0).matrix(basis, K)
    np.testing.assert_array_equal(K[:7, :7], 1)
    assert (K[7, :7] < 1).all()
    assert np.isfinite(PairwiseRadial(3, 1.0).values(basis, basis, widths)).all()


def test_margins_are_those_of_the_formula_and_survive_a_file(tmp_path):
    X = vectors()
    bank = KernelProjectionBank(12, **FEW).fit(X)
    margins = bank.decision_function(X[:20])
    for p in range(12):
        own = bank.columns_[bank.indptr_[p] : bank.indptr_[p + 1]]
        K = literal(X[:20][:, own].astype(float), bank.basis_[:, own].astype(float), 4, 2.0)
        np.testing.assert_allclose(margins[:, p], K @ bank.coefficients_[p] - bank.biases_[p], rtol=1e-3, atol=2e-3)
    bank.save(tmp_path / "bank.safetensors")
    again = load(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(again.decision_function(X[:20]), margins)
    np.testing.assert_array_equal(again.decision_function(X[7:8]), margins[7:8])  # alone as in a batch


def test_learning_lowers_the_loss_and_does_not_depend_on_threads():
    X = vectors()
    one, two = (KernelProjectionBank(12, n_jobs=n, **FEW).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.coefficients_, two.coefficients_)
    assert one.loss_curve_[-1] < one.loss_curve_[0] < 1


def test_there_are_no_landmarks_for_widths_of_pairs():
    with pytest.raises(ValueError, match=r"'n_landmarks' parameter .* sigma is 'pairwise'"):
        KernelProjectionBank(12, n_landmarks=8, **FEW).fit(vectors())
