import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from projbank import HammingIndex, KernelProjectionBank, ProjectionBank
from projbank.bits import unpack
from projbank.evaluate.tuning import best_trial, retrieval_scorer, tune, without_self
from projbank.methods import METHODS


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


def quick(n_bits=32, **params):
    return ProjectionBank(n_bits, **({"solver": "paper", "n_neighbors": 10, "max_iter": 5} | params))


def naive_score(bank, X, k, y=None, n_queries=1000):
    """One query after another: rank the others by (distance, row), count those that are right."""
    bits = 2.0 * unpack(bank.transform(X), bank.n_bits_) - 1
    queries = sorted({int(q) for q in np.linspace(0, len(X) - 1, min(n_queries, len(X)))})
    shares = []
    for q in queries:
        others = [j for j in range(len(X)) if j != q]
        ranked = sorted(others, key=lambda j: (-float(bits[j] @ bits[q]), j))[:k]
        if y is None:
            near = sorted(others, key=lambda j: (((X[j].astype(float) - X[q]) ** 2).sum(), j))[:k]
            shares.append(len(set(ranked) & set(near)) / k)
        else:
            shares.append(np.mean([y[j] == y[q] for j in ranked]))
    return np.mean(shares)


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("n_queries", [7, 1000])
def test_the_score_is_that_of_the_naive_loop(digits, labelled, n_queries):
    X, y = digits
    bank = quick().fit(X[:400])
    held, labels = X[400:470], y[400:470] if labelled else None
    scorer = retrieval_scorer(5, n_queries=n_queries)
    assert scorer(bank, held, labels) == pytest.approx(naive_score(bank, held, 5, labels, n_queries), abs=1e-12)


def test_the_asymmetric_score_is_that_of_whole_rankings(digits):
    X, y = digits
    held, labels = X[400:], y[400:]
    bank = quick().fit(X[:400])
    _, ids = HammingIndex(bank.transform(held), n_bits=32).search(bank.query_values(held), len(held))
    right = [np.mean(labels[[j for j in row if j != q][:5]] == labels[q]) for q, row in enumerate(ids)]
    assert retrieval_scorer(5, asymmetric=True)(bank, held, labels) == pytest.approx(np.mean(right), abs=1e-12)


def test_a_query_is_never_its_own_result():
    ids = np.array([[0, 1, 2], [2, 0, 1], [0, 1, 3]])
    np.testing.assert_array_equal(without_self(ids, np.array([0, 1, 2])), [[1, 2], [2, 0], [0, 1]])
    same = np.zeros((9, 4), np.float32)  # all codes alike: many at distance 0 before the query itself
    bank = quick(3, n_neighbors=2).fit(np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32))
    assert retrieval_scorer(3)(bank, same, np.arange(9)) == 0


def test_few_vectors_lower_k(digits):
    X, _ = digits
    bank = quick().fit(X[:400])
    assert retrieval_scorer(50)(bank, X[:4], np.zeros(4)) == 1
    assert retrieval_scorer(50)(bank, X[:4]) == 1  # all the others are the nearest
    with pytest.raises(ValueError, match=r"at least 2 held-out vectors. Got 1"):
        retrieval_scorer()(bank, X[:1])


@pytest.mark.parametrize("name", ["bpb", "joint", "lsh", "pca", "pq"])
def test_every_kind_of_method_can_be_scored(digits, name):
    X, y = digits
    method = METHODS[name](16)
    method.set_params(**{key: 10 for key in ("n_neighbors", "max_iter") if key in method.get_params()})
    assert 0.3 < retrieval_scorer(10)(method.fit(X[:400]), X[400:], y[400:]) <= 1


@pytest.mark.parametrize("labelled", [True, False])
def test_grid_search(digits, labelled):
    X, y = digits
    split = ShuffleSplit(1, test_size=150, random_state=0)
    grid = {"lam": [0.1, 1.0], "grouping": ["auto", "soft"]}
    search = GridSearchCV(quick(), grid, scoring=retrieval_scorer(10), cv=split)
    search.fit(X, y if labelled else None)
    train, test = next(split.split(X))
    for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        bank = quick(**params).fit(X[train])
        assert score == retrieval_scorer(10)(bank, X[test], y[test] if labelled else None)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    ("kernel", "grid"), [("poly", {"degree": [1, 3], "lam": [1.0]}), ("rbf", {"sigma_factor": [0.5, 2.0]})]
)
def test_grid_search_of_kernel_banks(digits, kernel, grid):
    X, y = digits
    bank = KernelProjectionBank(16, kernel=kernel, n_basis=60, n_neighbors=10, max_iter=3)
    search = GridSearchCV(bank, grid, scoring=retrieval_scorer(10), cv=ShuffleSplit(1, test_size=150, random_state=0))
    scores = search.fit(X, y).cv_results_["mean_test_score"]
    assert len(scores) == 2
    assert scores.min() > 0.2
    assert scores[0] != scores[1]


def test_frames_and_lists(digits):
    X, y = digits
    bank = quick().fit(X[:400])
    frame = pd.DataFrame(X[400:])
    for scorer in (retrieval_scorer(5), retrieval_scorer(5, asymmetric=True)):
        assert scorer(bank, frame, y[400:]) == scorer(bank, X[400:].tolist(), y[400:]) == scorer(bank, X[400:], y[400:])
    assert retrieval_scorer(5)(bank, frame) == retrieval_scorer(5)(bank, X[400:])


def test_pipelines_and_pickles(digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), quick(30))
    scorer = pickle.loads(pickle.dumps(retrieval_scorer(5)))  # as for worker processes
    search = GridSearchCV(pipeline, {"projectionbank__lam": [1.0]}, scoring=scorer, cv=2)
    assert 0.3 < search.fit(X, y).best_score_ <= 1


class Nearly(TransformerMixin, BaseEstimator):
    """Codes whose quality is a parameter: bits of the label, flipped with a given chance."""

    def __init__(self, flips=0.0):
        self.flips = flips

    def fit(self, X, y=None):
        self.fitted_ = X.copy() if not sp.issparse(X) else X.toarray()
        return self

    def transform(self, X):
        X = X.toarray() if sp.issparse(X) else np.asarray(X)
        bits = (X[:, :1] == np.arange(8)) ^ (np.random.default_rng(0).random((len(X), 8)) < self.flips)
        return np.packbits(bits, axis=1, bitorder="little")


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_tune_finds_the_best_point_and_never_mixes_the_parts(kind):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, 300)
    X = np.column_stack([y, np.arange(300)]).astype(np.float32)
    seen = []

    def scorer(estimator, held, labels=None):
        seen.append(
            (
                set(estimator.fitted_[:, 1]),
                set(np.asarray(held[:, [1]].todense() if sp.issparse(held) else held[:, 1]).ravel()),
            )
        )
        return retrieval_scorer(10)(estimator, held, labels)

    trials = tune(Nearly(), kind(X), {"flips": [0.5, 0.2, 0.0]}, y=y, scorer=scorer)
    assert [trial.params["flips"] for trial in trials] == [0.5, 0.2, 0.0]
    assert trials[0].score < trials[1].score < trials[2].score
    assert best_trial(trials).params == {"flips": 0.0}
    for learnt, held in seen:
        assert not learnt & held
        assert (len(learnt), len(held)) == (240, 60)
    assert seen[0] == seen[2]


def test_of_equal_trials_the_first_is_best():
    y = np.arange(40) % 2
    trials = tune(Nearly(), y[:, None].astype(np.float32), {"flips": [0.0, 1.0]}, y=y)
    assert trials[0].score == trials[1].score
    assert best_trial(trials) is trials[0]


def test_tune_reads_files_and_does_not_depend_on_threads(digits, tmp_path):
    X, _ = digits
    np.save(tmp_path / "x.npy", X)
    grid = {"n_neighbors": [5, 20]}
    expected = [trial.score for trial in tune(quick(n_jobs=1), X, grid, scorer=retrieval_scorer(5))]
    for rows, n_jobs in ((np.load(tmp_path / "x.npy", mmap_mode="r"), 2), (X.astype(np.float64), None)):
        trials = tune(quick(n_jobs=n_jobs), rows, grid, scorer=retrieval_scorer(5))
        assert [trial.score for trial in trials] == expected


def test_bad_input_is_named_before_the_first_fit(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(ProjectionBank, "fit", lambda *_: pytest.fail("it was fitted"))
    with pytest.raises(ValueError, match=r"names no parameter of ProjectionBank: 'lambda'. Known: grouping, init"):
        tune(quick(), X, {"lambda": [1]})
    with pytest.raises(ValueError, match=r"'lam' parameter of ProjectionBank must be a float .* Got -1"):
        tune(quick(), X, {"lam": [1.0, -1.0]})
    with pytest.raises(ValueError, match=r"one per vector \(600\). Got shape \(599,\)"):
        tune(quick(), X, {"lam": [1.0]}, y=y[:-1])
    with pytest.raises(ValueError, match="at least 4 vectors"):
        tune(quick(), X[:3], {"lam": [1.0]})
    with pytest.raises(ValueError, match="'n_held_out' parameter of tune"):
        tune(quick(), X, {"lam": [1.0]}, n_held_out=1)
    with pytest.raises(ValueError, match="'k' parameter of retrieval_scorer"):
        retrieval_scorer(0)


def test_the_example_runs():
    import doctest

    import projbank.evaluate.tuning

    assert doctest.testmod(projbank.evaluate.tuning).failed == 0
