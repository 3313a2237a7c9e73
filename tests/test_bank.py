import pickle
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from projbank import ProjectionBank, load
from projbank.bits import pack
from projbank.models import bank as coding

SOLVERS = ("paper", "joint")


def data(n=60, n_features=90, seed=0):
    return np.random.default_rng(seed).standard_normal((n, n_features)).astype(np.float32)


def quick(n_bits=11, **params):
    return ProjectionBank(n_bits, **({"n_neighbors": 5, "max_iter": 3} | params))


@parametrize_with_checks(
    [ProjectionBank(max_iter=2), *(ProjectionBank(solver=solver, max_iter=2) for solver in SOLVERS)]
)
@pytest.mark.filterwarnings("ignore:n_neighbors=100 is lowered")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("n", "n_features", "n_bits"), [(2, 1, 1), (3, 7, 7), (20, 65, 7), (9, 1025, 64)])
def test_the_public_interface(solver, n, n_features, n_bits):
    X = data(n, n_features)
    bank = quick(n_bits, solver=solver, n_neighbors=1).fit(X)
    codes, margins = bank.transform(X), bank.decision_function(X)
    assert codes.shape == (n, (n_bits + 7) // 8)
    assert codes.dtype == np.uint8
    assert margins.shape == (n, n_bits)
    assert margins.dtype == np.float32
    np.testing.assert_array_equal(codes, pack(margins > 0))
    assert bank.labels_.shape == bank.weights_.shape == (n_features,)
    assert bank.labels_.dtype == np.int32
    assert bank.weights_.dtype == np.float32
    assert bank.biases_.shape == (n_bits,)
    assert bank.group_sizes_.sum() == n_features
    assert bank.group_sizes_.min() >= 1
    for p in range(n_bits):
        own = bank.labels_ == p
        expected = X[:, own].astype(float) @ bank.weights_[own] - bank.biases_[p]
        np.testing.assert_allclose(margins[:, p], expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("grouping", ["auto", "kmeans", "random", "contiguous", "array"])
def test_groupings(solver, grouping):
    X = data()
    given = np.arange(90) % 11 if grouping == "array" else grouping
    bank = quick(solver=solver, grouping=given).fit(X)
    assert bank.group_sizes_.min() >= 1
    if grouping == "array":
        np.testing.assert_array_equal(bank.labels_, given)


def test_auto_grouping_and_auto_bits():
    X = data(300, 40)
    paper, kmeans = quick(6, solver="paper").fit(X), quick(6, solver="paper", grouping="kmeans").fit(X)
    np.testing.assert_array_equal(paper.labels_, kmeans.labels_)
    for n_features, n_bits in ((1, 1), (16, 1), (40, 2), (1040, 64), (5000, 320)):
        assert quick("auto").fit(data(8, n_features)).n_bits_ == n_bits


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_kind_of_input_gives_the_same_bits(solver, tmp_path):
    X = sp.random_array((40, 90), density=0.4, rng=np.random.default_rng(0)).toarray().astype(np.float16)
    X = X.astype(np.float32)  # exact in every float type
    np.save(tmp_path / "x.npy", X)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = X
    expected = quick(solver=solver).fit(X)
    codes, margins = expected.transform(X), expected.decision_function(X)
    with h5py.File(tmp_path / "x.h5") as file:
        kinds = {
            "float16": X.astype(np.float16),
            "float64": X.astype(np.float64),
            "fortran": np.asfortranarray(X),
            "strided": np.repeat(X, 2, axis=1)[:, ::2],
            "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
            "list": X.tolist(),
            "csr": sp.csr_array(X),
            "csc": sp.csc_matrix(X),
            "hdf5": file["x"],
        }
        for name, rows in kinds.items():
            bank = quick(solver=solver).fit(rows)
            np.testing.assert_array_equal(bank.weights_, expected.weights_, err_msg=name)
            np.testing.assert_array_equal(bank.transform(rows), codes, err_msg=name)
            np.testing.assert_array_equal(bank.decision_function(rows), margins, err_msg=name)
    read_only = X.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(expected.transform(read_only), codes)
    for i in (0, 39):
        np.testing.assert_array_equal(expected.transform(X[i : i + 1]), codes[i : i + 1])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("standardize", [False, True])
def test_threads_do_not_change_the_bits(solver, standardize):
    X = data(600, 200) * np.linspace(0.1, 10, 200, dtype=np.float32)
    banks = [quick(40, solver=solver, standardize=standardize, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2, 3, None)]
    for bank in banks[1:]:
        for name in ("labels_", "weights_", "biases_", "loss_curve_"):
            np.testing.assert_array_equal(getattr(bank, name), getattr(banks[0], name))


def test_large_batches_are_coded_in_blocks_on_threads(monkeypatch):
    monkeypatch.setattr(coding, "SMALL", 0)
    X = data(1100, 8192, seed=3)
    bank = quick(64, solver="paper", grouping="random").fit(X[:50])
    whole = bank.set_params(n_jobs=1).transform(X)
    np.testing.assert_array_equal(bank.set_params(n_jobs=3).transform(X), whole)
    np.testing.assert_array_equal(np.vstack([bank.transform(X[i : i + 1]) for i in range(0, 1100, 100)]), whole[::100])


@pytest.mark.parametrize("solver", SOLVERS)
def test_seeds(solver):
    X = data()
    first, same, other = (quick(solver=solver, random_state=seed).fit(X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.weights_, same.weights_)
    assert not np.array_equal(first.labels_, other.labels_)
    drawn = np.random.RandomState(0)
    one, next_one = (quick(solver=solver, random_state=drawn).fit(X).labels_ for _ in range(2))
    assert not np.array_equal(one, next_one)
    again = quick(solver=solver, random_state=np.random.RandomState(0)).fit(X).labels_
    np.testing.assert_array_equal(again, one)
    unseeded = [quick(solver=solver, random_state=None).fit(X).labels_ for _ in range(2)]
    assert not np.array_equal(*unseeded)


def test_standardizing_equals_scaled_data():
    X = data() * np.linspace(0.01, 100, 90, dtype=np.float32)
    X[:, 7] = 5.0  # constant: its deviation counts as 1
    deviations = np.where(X.std(axis=0, dtype=np.float64) > 1e-6, X.std(axis=0, dtype=np.float64), 1).astype(np.float32)
    bank = quick(solver="paper", grouping="random", standardize=True).fit(X)
    scaled = quick(solver="paper", grouping="random").fit(X / deviations)
    np.testing.assert_allclose(
        bank.decision_function(X), scaled.decision_function(X / deviations), rtol=1e-2, atol=1e-3
    )


def test_constant_and_duplicate_dimensions_give_no_nan():
    X = data(40, 60)
    X[:, :20] = 0
    X[:, 20:30] = 1e-3
    X[:, 30:40] = X[:, 40:50]
    for solver in SOLVERS:
        for n_bits in (7, 60):
            bank = quick(n_bits, solver=solver, grouping="kmeans").fit(X)
            assert np.isfinite(bank.weights_).all()
            assert np.isfinite(bank.decision_function(X)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.float64])
def test_the_first_bad_value_is_named(value, kind):
    bank = quick().fit(data())
    X = data().astype(np.float64) if kind is np.float64 else data()
    X[17, 5] = X[17, 80] = X[40, 2] = value
    rows = X if kind is np.float64 else kind(X)
    for call in (quick().fit, quick(solver="paper").fit, bank.transform, bank.decision_function):
        with pytest.raises(ValueError, match=r"X contains (NaN|infinity.*) at row 17, column 5\."):
            call(rows)


def test_values_that_float32_cannot_hold_are_named():
    X = data().astype(np.float64)
    X[3, 4] = 1e300
    with pytest.raises(ValueError, match="too large for float32 at row 3, column 4"):
        quick().fit(X)


def test_overflowing_sums_of_finite_values_are_no_error():
    bank = quick(1).fit(data())
    assert bank.transform(np.full((9, 90), 3e38, np.float32)).shape == (9, 1)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"n_bits": 0},
            "The 'n_bits' parameter of ProjectionBank must be an int in the range [1, inf). Got 0 instead.",
        ),
        ({"n_bits": 1.5}, "Got 1.5 instead"),
        ({"n_bits": "many"}, "Got 'many' instead"),
        ({"n_bits": 91, "solver": "joint"}, "at most the number of features, 90"),
        ({"solver": "magic"}, "must be one of 'mixed', 'joint', 'paper', 'random'. Got 'magic'"),
        ({"grouping": "magic", "solver": "joint"}, "'learnt', 'soft-learnt'. Got 'magic'"),
        ({"grouping": [0, 1]}, "shape (90,)"),
        ({"n_neighbors": 0}, "'n_neighbors' parameter of ProjectionBank must be an int in the range [1, inf). Got 0"),
        ({"lam": 0}, "'lam' parameter of ProjectionBank must be a float in the range (0.0, inf). Got 0"),
        ({"lam": float("nan")}, "Got nan"),
        ({"max_iter": 0}, "'max_iter'"),
        ({"tol": -1}, "'tol'"),
        ({"noise": -0.1}, "'noise'"),
        ({"init": "magic"}, "'leading', 'equal', 'random'"),
        ({"kmeans_iter": 0}, "'kmeans_iter'"),
        ({"n_jobs": 0}, "'n_jobs'"),
    ],
)
def test_bad_parameters_are_named(params, words):
    with pytest.raises(ValueError, match=r".") as error:
        quick(**({"n_bits": 5} | params)).fit(data())
    assert words in str(error.value)


def test_bad_shapes():
    bank = quick().fit(data())
    with pytest.raises(ValueError, match="X has 89 features, but ProjectionBank is expecting 90"):
        bank.transform(data(5, 89))
    with pytest.raises(ValueError, match="minimum of 2"):
        quick().fit(data(1))
    with pytest.raises(ValueError, match="1D array"):
        bank.transform(data()[0])
    with pytest.raises(NotFittedError):
        quick().transform(data())


def test_more_neighbours_than_samples_is_a_warning():
    with pytest.warns(UserWarning, match="n_neighbors=100 is lowered to 9"):
        bank = ProjectionBank(5, solver="joint", max_iter=2).fit(data(10))
    fewer = ProjectionBank(5, solver="joint", max_iter=2, n_neighbors=9).fit(data(10))
    np.testing.assert_array_equal(bank.weights_, fewer.weights_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_silence_and_speech(solver, capfd):
    quick(solver=solver, grouping="kmeans").fit(data()).transform(data())
    assert capfd.readouterr() == ("", "")
    quick(solver=solver, verbose=1).fit(data())
    said = capfd.readouterr()
    assert said.out == ""
    assert "11 groups of" in said.err
    assert "loss: " in said.err
    assert "(step " in said.err


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_saved_bank_gives_the_same_bits(solver, tmp_path):
    X = data()
    bank = quick(solver=solver, grouping=np.arange(90) % 11, lam=0.5).fit(X)
    bank.save(tmp_path / "bank.safetensors")
    again = load(tmp_path / "bank.safetensors")
    assert type(again) is ProjectionBank
    np.testing.assert_array_equal(again.transform(X), bank.transform(X))
    np.testing.assert_array_equal(again.grouping, bank.grouping)
    params, expected = again.get_params(), bank.get_params()
    assert {k: v for k, v in params.items() if k != "grouping"} == {
        k: v for k, v in expected.items() if k != "grouping"
    }
    np.testing.assert_array_equal(again.group_sizes_, bank.group_sizes_)
    np.testing.assert_array_equal(again.loss_curve_, bank.loss_curve_)
    assert again.n_bits_ == 11
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(bank)).transform(X), bank.transform(X))


def test_names_of_columns_are_kept(tmp_path):
    frame = pd.DataFrame(data(), columns=[f"gene {j}" for j in range(90)])
    bank = quick().fit(frame)
    bank.save(tmp_path / "bank.safetensors")
    again = load(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(again.feature_names_in_, bank.feature_names_in_)
    np.testing.assert_array_equal(again.transform(frame), bank.transform(frame))
    out = quick().set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["projectionbank0", "projectionbank1"]
    with pytest.raises(ValueError, match="feature names should match"):
        again.transform(frame[frame.columns[::-1]])


def test_it_stands_in_pipelines_and_searches():
    X = data(90)
    y = (X[:, :30].sum(axis=1) > 0).astype(int)
    pipeline = make_pipeline(quick(solver="paper"), KNeighborsClassifier(3, metric="hamming"))
    search = GridSearchCV(pipeline, {"projectionbank__lam": [0.1, 1.0], "projectionbank__n_bits": [8, 16]}, cv=2)
    best = search.fit(X, y).best_estimator_
    by_hand = clone(quick(solver="paper")).set_params(**best["projectionbank"].get_params()).fit(X)
    np.testing.assert_array_equal(best["projectionbank"].transform(X), by_hand.transform(X))
    assert search.cv_results_["mean_test_score"].shape == (4,)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert clone(quick(lam=3)).lam == 3


def test_coding_a_memory_map_keeps_memory_bounded(tmp_path):
    """A file of 1 GB is coded in a process of its own; its peak memory may rise by less than 500 MB."""
    code = """
import resource, sys
import numpy as np
from projbank import ProjectionBank
rng = np.random.default_rng(0)
bank = ProjectionBank(500, solver="paper", grouping="random", n_neighbors=3, max_iter=1, n_jobs=2)
bank.fit(rng.standard_normal((16, 8000), dtype=np.float32))
X = np.lib.format.open_memmap(sys.argv[1], mode="w+", dtype=np.float32, shape=(31_250, 8000))
del X
X = np.load(sys.argv[1], mmap_mode="r")
bank.transform(X[:100])
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
codes = bank.transform(X)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024, codes.shape)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    megabytes, shape = done.stdout.split(maxsplit=1)
    assert float(megabytes) < 500
    assert shape.strip() == "(31250, 63)"
