"""`projbank fit`: soft groupings, kernel banks and --tune."""

import json
import os

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from projbank import KernelProjectionBank, ProjectionBank, load
from projbank.evaluate.tuning import retrieval_scorer, tune


@pytest.fixture
def digits(tmp_path):
    X, y = load_digits(return_X_y=True)
    np.save(tmp_path / "x.npy", X[:300].astype(np.float32))
    np.save(tmp_path / "y.npy", y[:300])
    return tmp_path


def quick(path, *words):
    return ["fit", path / "x.npy", "-o", path / "b", "-k", 5, "--set", "max_iter=2", "-j", 1, *words]


def test_soft_banks(projbank, digits):
    code, out, err = projbank(*quick(digits, "-b", 80, "--grouping", "soft", "--set", "n_assign=3"))
    assert (code, err) == (0, "")
    assert "64 dimensions to 80 bits" in out
    bank = load(digits / "b")
    assert bank.labels_.shape == (3, 64)
    facts = json.loads(projbank("info", digits / "b", "--json")[1])
    assert facts["groups per dimension"] == 3
    assert facts["parameters"]["grouping"] == "soft"
    assert projbank("encode", digits / "b", digits / "x.npy", "-o", digits / "c.npy")[0] == 0
    np.testing.assert_array_equal(np.load(digits / "c.npy"), bank.transform(np.load(digits / "x.npy")))
    np.save(digits / "g.npy", bank.labels_)
    assert projbank(*quick(digits, "-b", 80, "--grouping", digits / "g.npy"))[0] == 0
    np.testing.assert_array_equal(load(digits / "b").labels_, bank.labels_)


def test_noise_is_for_linear_banks(projbank, digits):
    assert projbank(*quick(digits, "-b", 16, "--set", "noise=0.2"))[0] == 0
    assert load(digits / "b").noise == 0.2
    code, _, err = projbank(*quick(digits, "-b", 16, "--set", "noise=0.2", "--kernel", "poly"))
    assert code == 2
    assert "--set names no parameter of KernelProjectionBank. Got 'noise' instead." in err


def test_labels_are_learnt_from(projbank, digits):
    assert projbank(*quick(digits, "-b", 16, "--labels", digits / "y.npy"))[0] == 0
    X, y = np.load(digits / "x.npy"), np.load(digits / "y.npy")
    expected = load(digits / "b")
    np.testing.assert_array_equal(expected.transform(X), clone(expected).fit(X, y).transform(X))
    assert (expected.transform(X) != clone(expected).fit(X).transform(X)).any()


def test_kernel_banks(projbank, digits):
    words = ["-b", 16, "--kernel", "poly", "--set", "n_basis=50", "--set", "degree=2"]
    assert projbank(*quick(digits, *words))[0] == 0
    bank = load(digits / "b")
    assert type(bank) is KernelProjectionBank
    assert (bank.kernel, bank.n_basis, bank.degree, bank.n_neighbors) == ("poly", 50, 2, 5)
    assert json.loads(projbank("info", digits / "b", "--json")[1])["class"] == "KernelProjectionBank"
    words = ["-b", 16, "--kernel", "rbf", "--tune", "sigma_factor=1,2", "--tune-k", 5]
    words += ["--set", "n_basis=50", "--set", "n_landmarks=8"]
    code, out, _ = projbank(*quick(digits, *words))
    assert code == 0
    assert "sigma_factor" in out
    bank = load(digits / "b")
    assert bank.sigma_factor in (1, 2)
    assert bank.n_landmarks == 8


@pytest.mark.parametrize("labelled", [True, False])
def test_tune_saves_the_best_of_the_grid(projbank, digits, labelled):
    labels = ["--labels", digits / "y.npy"] if labelled else []
    words = ["-b", 16, "--solver", "paper", "--tune", "lam=0.01,1", "--tune", "grouping=auto,soft", "--tune-k", 10]
    code, out, err = projbank(*quick(digits, *words, *labels))
    assert (code, err) == (0, "")
    X, y = np.load(digits / "x.npy"), np.load(digits / "y.npy")
    bank = ProjectionBank(16, solver="paper", n_neighbors=5, max_iter=2)
    grid = {"lam": [0.01, 1], "grouping": ["auto", "soft"]}
    trials = tune(bank, X, grid, y=y if labelled else None, scorer=retrieval_scorer(10))
    for trial in trials:
        assert f"{trial.score:.4f}" in out
    best = max(trials, key=lambda trial: trial.score)
    found = load(digits / "b")
    assert {name: getattr(found, name) for name in best.params} == best.params
    expected = bank.set_params(**best.params).fit(X)
    np.testing.assert_array_equal(found.transform(X), expected.transform(X))
    assert ("same label" in out) == labelled


def test_bad_input_is_one_line_and_exit_code_2(projbank, digits):
    np.save(digits / "short.npy", np.zeros(7))
    (digits / "b").write_bytes(b"untouched")
    before = sorted(os.listdir(digits))
    cases = [
        (["--tune", "lam"], "--tune must be PARAMETER=VALUE,VALUE... Got 'lam'"),
        (["--tune", "lam=1,,2"], "Got 'lam=1,,2'"),
        (["--tune", "lam=1", "--tune", "lam=2"], "names 'lam' twice"),
        (["--tune", "lambda=1"], "names no parameter of ProjectionBank: 'lambda'"),
        (["--tune", "lam=1,-1"], "'lam' parameter of ProjectionBank must be a float in the range (0.0, inf). Got -1"),
        (["--tune", "lam=1", "--labels", digits / "short.npy"], "one per vector (300). Got shape (7,)"),
        (["--tune", "lam=1", "--labels", digits / "none.npy"], "no such file"),
        (["--tune", "lam=1", "--tune-k", 0], "'k' parameter of retrieval_scorer"),
        (["--labels", digits / "y.npy", "--solver", "joint"], "--labels is for neighbourhoods of the solver mixed"),
        (["--labels", digits / "short.npy"], "an array of shape (300,), a label for each row. Got 'shape (7,)'"),
        (["--set", "n_bits=8"], "--set is for parameters without an option of their own. Got 'n_bits' instead."),
        (["--set", "noise"], "--set must be NAME=VALUE. Got 'noise' instead."),
        (["--grouping", "soft", "--set", "n_assign=0"], "'n_assign' parameter of ProjectionBank must be an int"),
        (
            ["--solver", "joint", "--grouping", "soft", "-b", 129],
            "at most the number of features, 64 times n_assign = 2",
        ),
        (["--set", "degree=2"], "--set names no parameter of ProjectionBank. Got 'degree' instead."),
        (
            ["--kernel", "rbf", "--set", "standardize=true"],
            "--set names no parameter of KernelProjectionBank. Got 'standardize' instead.",
        ),
        (["--kernel", "poly", "--set", "degree=0"], "'degree' parameter of KernelProjectionBank"),
    ]
    for words, message in cases:
        code, said, error = projbank(*quick(digits, *words, "--force"))
        assert code == 2, words
        assert said == ""
        assert error.startswith("projbank: error: ")
        assert error.count("\n") == 1
        assert message in error
    assert (digits / "b").read_bytes() == b"untouched"
    assert sorted(os.listdir(digits)) == before


def test_codes_for_distances(projbank, digits):
    assert projbank(*quick(digits, "-b", 40, "--preserve", "distances"))[0] == 0
    bank = load(digits / "b")
    assert (bank.preserve, bank.inner_.shape) == ("distances", (64, 40))
    assert projbank("encode", digits / "b", digits / "x.npy", "-o", digits / "c.npy")[0] == 0
    X = np.load(digits / "x.npy")
    expected = ProjectionBank(40, preserve="distances").fit(X).transform(X)
    np.testing.assert_array_equal(np.load(digits / "c.npy"), expected)
