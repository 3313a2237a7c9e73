"""Two stages: a shortlist from the codes, put in order by the original vectors."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances

from projbank.bits import pack
from projbank.search import HammingIndex


@pytest.fixture
def vectors():
    return np.random.default_rng(0).standard_normal((250, 33)).astype(np.float32)


@pytest.fixture
def queries():
    return np.random.default_rng(1).standard_normal((7, 33)).astype(np.float32)


def nearest(distances, k):
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize(("metric", "name"), [("l2", "euclidean"), ("cosine", "cosine")])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_full_shortlist_gives_the_true_neighbours(vectors, queries, metric, name, n_jobs):
    index = HammingIndex(pack(vectors > 0), n_bits=33)
    exact = pairwise_distances(queries.astype(float), vectors.astype(float), metric=name)
    distances, ids = index.search(
        pack(queries > 0), 10, rerank=vectors, query_vectors=queries, metric=metric, shortlist=250, n_jobs=n_jobs
    )
    np.testing.assert_array_equal(ids, nearest(exact, 10))
    np.testing.assert_allclose(distances, np.sort(exact, axis=1)[:, :10], rtol=1e-5)
    assert distances.dtype == np.float32


def test_only_the_shortlist_is_ordered(vectors, queries):
    index = HammingIndex(pack(vectors > 0), n_bits=33)
    codes = pack(queries > 0)
    _, shortlist = index.search(codes, 50)
    _, ids = index.search(codes, 5, rerank=vectors, query_vectors=queries)
    exact = pairwise_distances(queries.astype(float), vectors.astype(float))
    for q in range(7):
        kept = shortlist[q][np.argsort(exact[q][shortlist[q]])][:5]
        np.testing.assert_array_equal(ids[q], kept)


def test_margins_may_be_the_first_stage(vectors, queries):
    index = HammingIndex(pack(vectors > 0), n_bits=33)
    _, ids = index.search(queries, 10, rerank=vectors, query_vectors=queries, shortlist=250)
    np.testing.assert_array_equal(ids, nearest(pairwise_distances(queries, vectors), 10))


def test_every_kind_of_vectors_gives_the_same(vectors, queries, tmp_path, monkeypatch):
    monkeypatch.setattr("projbank.search.rerank.GATHER_BYTES", 33 * 4 * 8)
    index = HammingIndex(pack(vectors > 0), n_bits=33)
    np.save(tmp_path / "vectors.npy", vectors)
    with h5py.File(tmp_path / "vectors.h5", "w") as file:
        kinds = {
            "memmap": np.load(tmp_path / "vectors.npy", mmap_mode="r"),
            "sparse": sp.csr_array(vectors),
            "hdf5": file.create_dataset("vectors", data=vectors),
        }
        expected = index.search(pack(queries > 0), 9, rerank=vectors, query_vectors=queries, n_jobs=1)
        for kind, rows in kinds.items():
            points = sp.csr_array(queries) if kind == "sparse" else queries
            found = index.search(pack(queries > 0), 9, rerank=rows, query_vectors=points, n_jobs=1)
            np.testing.assert_array_equal(found[1], expected[1], err_msg=kind)
            np.testing.assert_array_equal(found[0], expected[0], err_msg=kind)


def test_rows_are_found_by_id_after_a_removal(vectors):
    index = HammingIndex(pack(vectors > 0), n_bits=33)
    index.remove(np.arange(100))
    _, ids = index.search(pack(vectors[200:203] > 0), 1, rerank=vectors, query_vectors=vectors[200:203])
    np.testing.assert_array_equal(ids[:, 0], [200, 201, 202])


def test_an_empty_index_finds_nothing(vectors, queries):
    index = HammingIndex(n_bits=33)
    for options in ({"rerank": vectors, "query_vectors": queries}, {"rerank": "asymmetric"}):
        values, ids = index.search(queries, 5, **options)
        assert values.shape == ids.shape == (7, 0)


def test_ties_and_zero_vectors():
    vectors = np.zeros((6, 4))
    index = HammingIndex(pack(vectors > 0), n_bits=4)
    for metric in ("l2", "cosine"):
        distances, ids = index.search(
            pack(vectors[:1] > 0), 3, rerank=vectors, query_vectors=vectors[:1], metric=metric
        )
        assert ids.tolist() == [[0, 1, 2]]
        assert np.isfinite(distances).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rerank": "other"}, "'rerank' parameter.*'asymmetric'"),
        ({"rerank": [1, 2]}, "rerank must be 'asymmetric' or a 2-D array"),
        ({"rerank": "vectors"}, "needs query_vectors"),
        ({"rerank": "vectors", "query_vectors": np.zeros((7, 5))}, r"query_vectors must be floats of shape \(7, 33\)"),
        ({"rerank": "vectors", "query_vectors": "queries", "metric": "l1"}, "'metric' parameter"),
        ({"rerank": "vectors", "query_vectors": "queries", "shortlist": 4}, "'shortlist' parameter"),
        ({"rerank": "vectors", "query_vectors": np.full((7, 33), np.nan)}, "query_vectors contains NaN"),
        ({"rerank": "short", "query_vectors": "queries"}, "a row for every id. Got 2 rows"),
        ({"rerank": "bad", "query_vectors": "queries", "shortlist": 250}, "rerank contains NaN.* at row 17"),
        ({"shortlist": 50}, "give rerank, too"),
    ],
)
def test_bad_input(vectors, queries, options, message):
    bad = vectors.copy()
    bad[17, 3] = np.inf
    names = {"vectors": vectors, "short": vectors[:2], "bad": bad, "queries": queries}
    options = {key: names.get(value, value) if isinstance(value, str) else value for key, value in options.items()}
    with pytest.raises(ValueError, match=message):
        HammingIndex(pack(vectors > 0), n_bits=33).search(pack(queries > 0), 5, **options)
