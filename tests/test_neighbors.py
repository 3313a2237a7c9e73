"""HammingNeighbors beside scikit-learn's exact transformer, and in the pipelines it is made for."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from projbank import HammingNeighbors, ProjectionBank


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500].astype(np.float32), y[:500]


QUICK = ProjectionBank(solver="random")


@parametrize_with_checks([HammingNeighbors(n_neighbors=5, bank=QUICK)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("kind", [np.asarray, np.float64, np.asfortranarray, sp.csr_matrix, sp.csc_array])
def test_all_candidates_give_the_exact_graph(kind, metric, digits):
    X = digits[0][:60]
    n_neighbors = 7  # 10 candidates for each of 8 are all
    graph = HammingNeighbors(n_neighbors, metric=metric, bank=QUICK).fit_transform(kind(X))
    exact = KNeighborsTransformer(
        n_neighbors=n_neighbors, metric="euclidean" if metric == "l2" else "cosine"
    ).fit_transform(X.astype(np.float64))
    np.testing.assert_allclose(graph.data.reshape(60, -1), exact.data.reshape(60, -1), rtol=1e-4, atol=1e-4)
    assert np.mean(graph.indices == exact.indices) > 0.99  # ties may be broken in another order


def test_neighbours_of_new_vectors(digits):
    X, _ = digits
    finder = HammingNeighbors(5).fit(X[:100])
    found = finder.transform(X[100:120])
    exact = KNeighborsTransformer(n_neighbors=5).fit(X[:100]).transform(X[100:120])
    assert found.shape == exact.shape
    assert found.nnz == exact.nnz
    assert np.mean(found.indices == exact.indices) > 0.8
    assert finder.set_params(mode="connectivity").transform(X[100:120]).nnz == 5 * 20


def test_each_vector_comes_first_even_among_copies(digits):
    X = np.repeat(digits[0][:6], 30, axis=0)
    for rerank in (True, False):
        graph = HammingNeighbors(4, rerank=rerank, bank=ProjectionBank(64, solver="random")).fit_transform(X)
        ids = graph.indices.reshape(len(X), 5)
        np.testing.assert_array_equal(ids[:, 0], np.arange(len(X)))
        assert all(len(set(row)) == 5 for row in ids.tolist())
        assert (graph.data == 0).all()
        np.testing.assert_array_equal(ids // 30, np.arange(len(X))[:, None] // 30 * np.ones(5, int))


def test_codes_alone(digits):
    X, _ = digits
    bank = ProjectionBank(n_bits=40, n_neighbors=10).fit(X)
    finder = HammingNeighbors(5, bank=bank, rerank=False)
    graph = finder.fit_transform(X)
    assert finder.bank_ is bank
    bits = np.unpackbits(bank.transform(X), axis=1, bitorder="little")[:, :40].astype(int)
    differing = (bits[:, None] != bits).mean(axis=2)
    values = np.sort(differing + 1e-9 * np.arange(len(X)), axis=1)[:, :6]
    np.testing.assert_allclose(graph.data.reshape(-1, 6), values, atol=1e-6)


def test_same_bits_for_any_number_of_threads(digits):
    X, _ = digits
    graphs = [HammingNeighbors(5, n_jobs=n_jobs).fit_transform(X) for n_jobs in (1, 3)]
    np.testing.assert_array_equal(graphs[0].toarray(), graphs[1].toarray())


def test_a_bank_that_is_not_fitted_is_cloned(digits):
    X, _ = digits
    bank = ProjectionBank(n_bits=24, solver="random")
    finder = clone(HammingNeighbors(5, bank=bank)).fit(X)
    assert not hasattr(bank, "n_bits_")
    assert finder.bank_.n_bits_ == 24
    with pytest.raises(ValueError, match=r"expecting 64 features"):
        finder.transform(X[:, 1:])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": 500}, "less than the 500 vectors"),
        ({"n_bits": 0}, "n_bits"),
        ({"n_components": "some"}, "n_components"),
        ({"metric": "l1"}, "metric"),
        ({"mode": "x"}, "mode"),
        ({"recall": 2.0}, "recall"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(params, words, digits):
    with pytest.raises(ValueError, match=words):
        HammingNeighbors(**params).fit(digits[0])


def test_bad_values_are_named(digits):
    X = digits[0].copy()
    X[312, 3] = np.nan
    with pytest.raises(ValueError, match="NaN at row 312, column 3"):
        HammingNeighbors().fit(X)
    finder = HammingNeighbors(bank=QUICK).fit(digits[0])
    with pytest.raises(ValueError, match="NaN at row 312, column 3"):
        finder.transform(X)


def test_in_pipelines(digits):
    X, y = digits
    places = make_pipeline(HammingNeighbors(30), Isomap(n_neighbors=20, metric="precomputed")).fit_transform(X)
    assert places.shape == (500, 2)
    near = KNeighborsTransformer(n_neighbors=5).fit_transform(places)
    same = y[near.indices.reshape(500, -1)] == y[:, None]
    assert same.mean() > 0.6
    assert (
        len(make_pipeline(HammingNeighbors(15, bank=QUICK), DBSCAN(eps=20, metric="precomputed")).fit_predict(X)) == 500
    )


def test_rows_on_disk(digits, tmp_path):
    h5py = pytest.importorskip("h5py")
    X, _ = digits
    expected = HammingNeighbors(5, bank=QUICK).fit_transform(X)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = X
        graph = HammingNeighbors(5, bank=QUICK).fit_transform(file["x"])
    np.testing.assert_allclose(graph.toarray(), expected.toarray(), atol=1e-5)


def test_in_scanpy(digits):
    sc = pytest.importorskip("scanpy")
    X, y = digits
    adata = sc.AnnData(sp.csr_matrix(X))
    sc.pp.neighbors(adata, use_rep="X", method="gauss", transformer=HammingNeighbors(15, rerank=False))
    assert adata.obsp["distances"].shape == (500, 500)
    pytest.importorskip("igraph")
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2)
    purity = sum(np.bincount(y[adata.obs["leiden"] == cluster]).max() for cluster in adata.obs["leiden"].unique())
    assert purity / len(y) > 0.7


def test_in_umap(digits):
    umap = pytest.importorskip("umap")
    X, _ = digits
    graph = HammingNeighbors(15, bank=QUICK).fit_transform(X)
    ids, distances = graph.indices.reshape(500, -1)[:, :15], graph.data.reshape(500, -1)[:, :15]
    places = umap.UMAP(precomputed_knn=(ids, distances, None), random_state=0, n_epochs=20).fit_transform(X)
    assert np.isfinite(places).all()
