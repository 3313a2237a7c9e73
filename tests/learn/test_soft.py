"""Soft banks: a dimension serves several groups. What holds for every bank is in test_bank.py."""

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from projbank import ModelFileError, ProjectionBank, load
from projbank.bits import pack
from projbank.methods import METHODS
from projbank.models import bank as coding
from projbank.rows.source import as_rows
from projbank.rows.views import RepeatedRows
from tests.reference import paper as reference

SOLVERS = ("paper", "joint")


def data(n=60, n_features=90, seed=0):
    return np.random.default_rng(seed).standard_normal((n, n_features)).astype(np.float32)


def quick(n_bits=11, **params):
    return ProjectionBank(n_bits, **({"solver": "joint", "grouping": "soft", "n_neighbors": 5, "max_iter": 3} | params))


def naive_margins(X, labels, weights, biases):
    """One dimension after another, its groups in turn, in float32."""
    margins = np.zeros((len(X), len(biases)), np.float32)
    for j in range(X.shape[1]):
        for group, weight in zip(labels[:, j], weights[:, j], strict=True):
            margins[:, group] += weight * X[:, j]
    return margins - biases


@parametrize_with_checks(
    [ProjectionBank(solver="paper", grouping="soft", max_iter=3), ProjectionBank(grouping="soft", max_iter=2)]
)
@pytest.mark.filterwarnings("ignore:n_neighbors=100 is lowered", "ignore:n_assign=2 is lowered")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("n", "n_features", "n_bits", "n_assign"),
    [(3, 7, 7, 2), (20, 65, 7, 3), (9, 1025, 64, 2), (20, 30, 29, 2), (20, 30, 45, 2), (20, 30, 60, 2), (9, 3, 7, 5)],
)
def test_codes_and_margins_are_those_of_the_naive_loop(solver, n, n_features, n_bits, n_assign):
    X = data(n, n_features)
    bank = quick(n_bits, solver=solver, n_assign=n_assign, n_neighbors=1).fit(X)
    codes, margins = bank.transform(X), bank.decision_function(X)
    assert bank.labels_.shape == bank.weights_.shape == (n_assign, n_features)
    assert (bank.labels_.dtype, bank.weights_.dtype) == (np.int32, np.float32)
    assert bank.group_sizes_.min() >= 1
    assert bank.group_sizes_.sum() == n_assign * n_features
    np.testing.assert_array_equal(margins, naive_margins(X, bank.labels_, bank.weights_, bank.biases_))
    np.testing.assert_array_equal(codes, pack(margins > 0))
    for i in (0, n - 1):
        np.testing.assert_array_equal(bank.transform(X[i : i + 1]), codes[i : i + 1])


@pytest.mark.parametrize("grouping", ["soft", "random"])
def test_the_sparse_matrix_of_a_bank(grouping):
    X = data()
    bank = quick(grouping=grouping).fit(X)
    matrix = bank.to_csr()
    assert matrix.shape == (11, 90)
    assert matrix.dtype == np.float32
    assert matrix.nnz == bank.labels_.size
    assert matrix.has_canonical_format  # ascending columns, none twice
    expected = (matrix.astype(float) @ X.T.astype(float)).T - bank.biases_
    np.testing.assert_allclose(bank.decision_function(X), expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_group_per_dimension_is_the_hard_bank(solver):
    X = data(300, 40)
    hard = quick(6, solver=solver, grouping="random").fit(X)
    soft = quick(6, solver=solver, n_assign=1, grouping=hard.labels_[None]).fit(X)
    np.testing.assert_array_equal(soft.weights_[0], hard.weights_)
    np.testing.assert_array_equal(soft.transform(X), hard.transform(X))


def test_a_soft_group_is_learnt_as_a_hard_group_of_its_dimensions():
    X = data(40, 30)
    bank = quick(16, solver="paper", n_assign=2, max_iter=30, init="equal", n_neighbors=4).fit(X)
    labels = reference.pseudo_labels(X, 4)
    for p in range(0, 16, 5):
        own = (bank.labels_ == p).any(axis=0)
        alone = X[:, own].astype(float)
        w = np.append(bank.weights_[bank.labels_ == p][np.argsort(np.nonzero(bank.labels_ == p)[1])], bank.biases_[p])
        rows = np.column_stack([alone, -np.ones(len(X))])
        scales = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
        assert reference.loss(w, rows, labels, 1.0) <= reference.best_equal_weights(alone, labels, 1.0, scales) * 1.0001


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("grouping", ["kmeans", "random"])
def test_n_assign_goes_with_every_grouping(solver, grouping):
    X = data(300, 40)
    bank = quick(6, solver=solver, grouping=grouping, n_assign=2).fit(X)
    old = quick(6, solver=solver, grouping=f"soft-{grouping}").fit(X)
    np.testing.assert_array_equal(bank.labels_, old.labels_)
    np.testing.assert_array_equal(bank.transform(X), old.transform(X))
    assert quick(6, solver=solver, grouping=grouping).fit(X).labels_.shape == (40,)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("grouping", ["soft", "soft-kmeans", "soft-random"])
def test_names_of_groupings(solver, grouping):
    X = data(300, 40)
    labels = quick(6, solver=solver, grouping=grouping).fit(X).labels_
    if grouping == "soft":
        same = {"paper": "soft-kmeans", "joint": "soft-learnt"}[solver]
        np.testing.assert_array_equal(labels, quick(6, solver=solver, grouping=same).fit(X).labels_)
    given = quick(6, solver=solver, grouping=labels).fit(X)
    np.testing.assert_array_equal(given.labels_, labels)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("standardize", [False, True])
def test_threads_do_not_change_the_bits(solver, standardize):
    X = data(600, 200) * np.linspace(0.1, 10, 200, dtype=np.float32)
    banks = [quick(40, solver=solver, standardize=standardize, n_jobs=n_jobs).fit(X) for n_jobs in (1, 3)]
    for name in ("labels_", "weights_", "biases_", "loss_curve_"):
        np.testing.assert_array_equal(getattr(banks[0], name), getattr(banks[1], name))


def test_blocks_and_threads_do_not_change_the_codes(monkeypatch):
    X = data(300, 4096, seed=3)
    bank = quick(64, solver="paper").fit(X[:50])
    whole = bank.set_params(n_jobs=1).transform(X)
    monkeypatch.setattr(coding, "SMALL", 0)
    np.testing.assert_array_equal(bank.set_params(n_jobs=3).transform(X), whole)


@pytest.mark.parametrize("solver", SOLVERS)
def test_kinds_of_input_give_the_same_bank(solver, tmp_path):
    X = sp.random_array((40, 90), density=0.4, rng=np.random.default_rng(0)).toarray().astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    expected = quick(solver=solver).fit(X)
    for rows in (X.astype(np.float64), sp.csr_array(X), np.load(tmp_path / "x.npy", mmap_mode="r")):
        bank = quick(solver=solver).fit(rows)
        np.testing.assert_array_equal(bank.weights_, expected.weights_)
        np.testing.assert_array_equal(bank.transform(rows), expected.transform(X))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_bits", [7, 60, 100])
def test_constant_and_duplicate_dimensions_give_no_nan(solver, n_bits):
    X = data(40, 60)
    X[:, :20] = 0
    X[:, 20:30] = 1e-3
    X[:, 30:40] = X[:, 40:50]
    bank = quick(n_bits, solver=solver).fit(X)
    assert np.isfinite(bank.weights_).all()
    assert np.isfinite(bank.decision_function(X)).all()


def test_the_first_bad_value_is_named():
    bank, X = quick().fit(data()), data()
    X[17, 5] = X[40, 2] = np.nan
    for call in (quick().fit, bank.transform, bank.decision_function):
        with pytest.raises(ValueError, match=r"X contains NaN at row 17, column 5\."):
            call(X)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"n_bits": 181},
            "at most the number of features, 90 times n_assign = 2, since no group may be empty. Got 181",
        ),
        ({"n_assign": 0}, "'n_assign' parameter of ProjectionBank must be an int in the range [1, inf). Got 0"),
        ({"n_assign": 1.5}, "Got 1.5"),
        ({"grouping": np.zeros((2, 90), int)}, "Group 1 has no dimension"),
        ({"grouping": np.tile(np.arange(90) % 5, (2, 1))}, "Feature 0 is twice in one"),
        ({"grouping": "contiguous", "n_assign": 2}, 'must be 1 or "auto" for contiguous groups. Got 2'),
        ({"grouping": "hard-ish"}, "'learnt', 'soft-learnt'. Got 'hard-ish'"),
    ],
)
def test_bad_parameters_are_named(params, words):
    with pytest.raises(ValueError, match=r".") as error:
        quick(**({"n_bits": 5} | params)).fit(data())
    assert words in str(error.value)


def test_more_groups_per_dimension_than_groups_is_a_warning():
    with pytest.warns(UserWarning, match="n_assign=9 is lowered to 3: there are 4 groups"):
        assert quick(4, n_assign=9).fit(data()).labels_.shape == (3, 90)
    with pytest.warns(UserWarning, match="n_assign=2 is lowered to 1: there are 1 groups"):
        assert quick(1).fit(data()).labels_.shape == (90,)


@pytest.mark.parametrize("grouping", ["soft", "array"])
def test_a_saved_bank_gives_the_same_bits(grouping, tmp_path):
    X = data()
    given = np.stack([np.arange(90) % 11, (np.arange(90) // 11 + 1 + np.arange(90)) % 11])
    given[1] = np.where(given[0] == given[1], (given[1] + 1) % 11, given[1])
    bank = quick(grouping=given if grouping == "array" else grouping).fit(X)
    bank.save(tmp_path / "bank.safetensors")
    again = load(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(again.transform(X), bank.transform(X))
    np.testing.assert_array_equal(again.grouping, bank.grouping)
    assert again.n_features_in_ == 90
    assert (again.to_csr() != bank.to_csr()).nnz == 0


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("weights_", np.zeros(90, np.float32)),
        ("labels_", np.zeros((2, 89), np.int32)),
        ("labels_", np.zeros((1, 2, 90), np.int32)),
        ("labels_", np.int32(0)),
        ("labels_", np.zeros((0, 90), np.int32)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, array, tmp_path):
    path = tmp_path / "bank.safetensors"
    quick().fit(data()).save(path)
    tensors = load_file(path) | {name: np.asarray(array)}
    params = '{"solver": "joint"}'
    save_file(tensors, path, {"format": "projbank", "version": "1", "class": "ProjectionBank", "params": params})
    with pytest.raises(ModelFileError, match="do not fit each other"):
        load(path)


@pytest.mark.parametrize("name", ["bpb", "randst+bpb", "joint"])
def test_methods_take_the_grouping(name, tmp_path):
    X = data()
    grouping = "soft-random" if name == "randst+bpb" else "soft"
    method = METHODS[name](11, grouping=grouping, n_assign=3, n_neighbors=5, max_iter=2).fit(X)
    assert method.labels_.shape == (3, 90)
    assert method.model_bytes == 8 * 3 * 90 + 4 * 11
    assert clone(method).n_assign == 3
    method.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").transform(X), method.transform(X))
    if name == "randst+bpb":
        random = quick(solver="paper", grouping="soft-random", n_assign=3, max_iter=2).fit(X)
        np.testing.assert_array_equal(method.labels_, random.labels_)


def test_repeated_rows():
    X = data(7, 5)
    rows = RepeatedRows(as_rows(sp.csr_array(X)), 3)
    assert rows.shape == (7, 15)
    np.testing.assert_array_equal(rows.block(2, 5), np.hstack([X[2:5]] * 3))
    np.testing.assert_array_equal(rows.read(np.array([1, 6])), np.hstack([X[[1, 6]]] * 3))
