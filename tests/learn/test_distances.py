import numpy as np
import pytest
import scipy.sparse as sp

from projbank import HammingIndex, ProjectionBank, load
from projbank.bits import pack, unpack
from projbank.learn import components
from projbank.learn.components import leading_values, streamed_components
from projbank.learn.distances import box_edges
from projbank.methods import METHODS
from projbank.metrics import neighbor_recall
from projbank.rows.source import ArrayRows


def vectors(rng, n, n_features=600, n_hidden=120):
    """Vectors whose variance falls slowly over some directions, far from 0."""
    hidden = rng.standard_normal((n, n_hidden)) / np.arange(1, n_hidden + 1) ** 0.8
    turn = np.linalg.qr(rng.standard_normal((n_features, n_hidden)))[0]
    X = hidden @ turn.T + 0.01 * rng.standard_normal((n, n_features)) + 0.2 * rng.standard_normal(n_features)
    return X.astype(np.float32)


def bank_of(n_bits, **params):
    return ProjectionBank(n_bits, preserve="distances", n_jobs=1, **params)


def nearest(Q, G, k=10):
    return np.argsort(((Q[:, None] - G[None]) ** 2).sum(axis=2), axis=1)[:, :k]


def found(codes, queries, true, n_bits, k=10):
    index = HammingIndex(codes, n_bits=n_bits)
    return neighbor_recall(index.search(queries, k=k)[1], true)


@pytest.fixture(scope="module")
def data():
    X = vectors(np.random.default_rng(0), 900)
    Q, G = X[:100], X[100:]
    return Q, G, nearest(Q, G)


def test_codes_find_the_nearest_of_the_floats_better_than_random_projections_and_asymmetric_search_more(data):
    Q, G, true = data
    bank = bank_of(96).fit(G)
    plain = found(bank.transform(G), bank.transform(Q), true, 96)
    lsh = METHODS["lsh"](96, n_jobs=1).fit(G)
    assert plain > found(lsh.transform(G), lsh.transform(Q), true, 96) + 0.03
    assert found(bank.transform(G), bank.query_values(Q), true, 96) > plain + 0.02


def test_where_lengths_differ_codes_tell_distances_that_angles_do_not():
    rng = np.random.default_rng(7)
    X = vectors(rng, 900)
    X = (X - X.mean(axis=0)) * np.exp(0.3 * rng.standard_normal((900, 1), np.float32))
    Q, G = X[:100], X[100:]
    true = nearest(Q, G)
    angles = np.argsort(-(Q @ G.T) / np.linalg.norm(G, axis=1), axis=1)[:, :10]  # what signs come near to
    bank = bank_of(300).fit(G)
    values = bank.query_values(Q)
    assert found(bank.transform(G), pack(values > 0), true, 300) > neighbor_recall(angles, true)
    assert found(bank.transform(G), values, true, 300) > neighbor_recall(angles, true) + 0.1


def test_the_first_bits_are_a_good_code(data):
    Q, G, true = data
    whole = bank_of(120).fit(G)
    codes, values = whole.transform(G), whole.query_values(Q)
    for n_bits in (64, 104):
        own = bank_of(n_bits).fit(G)
        first, asked = np.ascontiguousarray(codes[:, : n_bits // 8]), np.ascontiguousarray(values[:, :n_bits])
        for form, less in ((np.copy, 0.14), (lambda part: pack(part > 0), 0.08)):
            part = found(first, form(asked), true, n_bits)
            assert part > found(own.transform(G), form(own.query_values(Q)), true, n_bits) - less


def test_the_first_bits_of_a_long_code_stand_for_a_part_of_the_row(data):
    Q, G, true = data
    bank = bank_of(1100).fit(G)
    assert bank.scales_[-1] == 1
    assert (np.diff(bank.scales_) > 0).all()
    own = bank_of(128).fit(G)
    first = np.ascontiguousarray(bank.transform(G)[:, :16])
    part = found(first, pack(bank.query_values(Q)[:, :128] > 0), true, 128)
    assert part > found(own.transform(G), own.query_codes(Q), true, 128) - 0.12


def test_inner_products_with_rows_whose_lengths_differ_manyfold_are_told():
    rng = np.random.default_rng(5)
    G = vectors(rng, 1000)
    G = ((G - G.mean(axis=0)) * np.exp(rng.standard_normal((1000, 1)))).astype(np.float32)
    Q, G = G[:150], G[150:]
    true = np.argsort(-(Q[75:] @ G.T), axis=1)[:, :10]
    bank = bank_of(300).fit(G, queries=Q[:75])
    values, codes = bank.query_values(Q[75:]), bank.transform(G)
    assert found(codes, pack(values > 0), true, 300) > 0.65
    assert found(codes, values, true, 300) > 0.7


def test_codes_for_inner_products_find_them_by_queries_of_another_kind():
    rng = np.random.default_rng(8)
    G = vectors(rng, 800)
    Q = (0.3 * vectors(rng, 300) + 2 * rng.standard_normal(600) / 25).astype(np.float32)
    true = np.argsort(-(Q[:100] @ G.T), axis=1)[:, :10]
    bank, lsh = bank_of(192).fit(G, queries=Q[100:]), METHODS["lsh"](192, n_jobs=1).fit(G)
    values = bank.query_values(Q[:100])
    plain = found(bank.transform(G), pack(values > 0), true, 192)
    assert plain > found(lsh.transform(G), lsh.decision_function(Q[:100]), true, 192) + 0.1
    assert found(bank.transform(G), values, true, 192) > plain + 0.05


def test_bits_are_chosen_so_that_scores_are_near_products_less_half_of_squares(data):
    Q, G, true = data
    bank = bank_of(96).fit(G)
    signs = np.where(unpack(bank.transform(G), 96), 1.0, -1.0)
    first = np.where(bank.model_._plain(bank.model_.coordinates(G)) > 0, 1.0, -1.0)
    wanted = Q @ G.T - (G**2).sum(axis=1) / 2
    wanted -= wanted.mean(axis=1, keepdims=True)

    def like(signs):
        scores = bank.query_values(Q) @ signs.T
        scores -= scores.mean(axis=1, keepdims=True)
        rows = np.arange(len(Q))[:, None]
        return np.corrcoef(scores[rows, true].ravel(), wanted[rows, true].ravel())[0, 1]

    assert like(signs) > like(first) + 0.02


def test_edges_are_longer_for_bits_of_shorter_codes():
    edges = box_edges(500)
    assert np.mean(edges**2) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(edges[[64, 128, 256]] / edges[0], (64 / np.array([128, 256, 500])) ** 0.25, rtol=1e-5)
    assert (np.diff(edges) <= 0).all()
    np.testing.assert_array_equal(box_edges(64), np.ones(64, np.float32))


@pytest.mark.parametrize("n_bits", [1, 7, 64, 700, 1500])
def test_codes_of_any_length_also_beyond_the_dimensions(n_bits):
    X = vectors(np.random.default_rng(1), 150, 90, 40)
    bank = bank_of(n_bits).fit(X)
    margins = bank.decision_function(X)
    assert margins.shape == (150, n_bits)
    np.testing.assert_array_equal(pack(margins > 0), bank.transform(X))
    coordinates = ((X - bank.means_) * bank.factors_).astype(float) @ bank.inner_
    np.testing.assert_allclose(bank.query_values(X), coordinates @ bank.outer_[:-1] - bank.query_biases_, atol=1e-3)


@pytest.mark.parametrize("n_rows", [2, 3, 30])
def test_few_rows_are_enough(n_rows):
    X = vectors(np.random.default_rng(2), n_rows, 150)
    assert bank_of(16).fit(X).transform(X).shape == (n_rows, 2)


def test_rows_that_are_all_the_same_are_no_error():
    X = np.ones((40, 30), np.float32)
    assert np.isfinite(bank_of(16).fit(X).decision_function(X)).all()


def test_same_bits_for_any_threads_and_kind_of_rows_and_for_a_row_alone():
    X = vectors(np.random.default_rng(3), 300, 5000)
    X[np.abs(X) < np.quantile(np.abs(X), 0.9)] = 0
    bank = bank_of(200, rank=40).fit(X)
    codes = bank.transform(X)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(bank_of(200, rank=40).set_params(n_jobs=n_jobs).fit(X).transform(X), codes)
    np.testing.assert_array_equal(bank_of(200, rank=40).fit(sp.csr_array(X)).transform(X), codes)
    np.testing.assert_array_equal(bank.transform(X[77:78])[0], codes[77])


def test_queries_are_linear_and_get_thresholds_of_their_own(data):
    Q, G, _ = data
    other = Q[:50] - 3 * G.mean(axis=0)  # of another kind than the rows
    bank = bank_of(96).fit(G, queries=other)
    plain = bank_of(96).fit(G)
    a, b = bank.query_values(Q[:2])
    np.testing.assert_allclose(bank.query_values(2 * Q[:1] - Q[1:2])[0], 2 * a - b, atol=1e-3)
    true = np.argsort(-(other @ G.T), axis=1)[:, :10]
    shares = [found(bank.transform(G), one.query_values(other), true, 96) for one in (bank, plain)]
    assert shares[0] > shares[1]
    assert bank.query_biases_.shape == (96,)


def test_it_survives_a_file(tmp_path, data):
    Q, G, _ = data
    bank = bank_of(40, rank=9).fit(G, queries=2 * Q)
    assert bank.inner_.shape == (600, 9)
    assert bank.model_bytes == 4 * (2 * 600 + 600 * 9 + 10 * 40 + 3 * 10 + 2 + 1 + 1 + 40)
    bank.save(tmp_path / "bank.safetensors")
    again = load(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(again.transform(Q), bank.transform(Q))
    np.testing.assert_array_equal(again.query_values(Q), bank.query_values(Q))


def test_dimensions_may_be_weighed_alike(data):
    _, G, _ = data
    alike = G / G.std(axis=0, dtype=float).astype(np.float32)
    codes = [bank_of(32, standardize=True).fit(G).transform(G), bank_of(32).fit(alike).transform(alike)]
    assert np.mean(codes[0] == codes[1]) > 0.98


def test_only_a_sample_is_learnt_from(capsys, data):
    _, G, _ = data
    bank = bank_of(16, train_size=150, verbose=1).fit(G)
    assert "learning from 150 of 800 rows" in capsys.readouterr().err
    assert bank.transform(G).shape == (800, 2)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"preserve": "all"}, "'preserve' parameter of ProjectionBank must be one of 'neighbourhoods', 'distances'"),
        ({"rank": 0}, "'rank' parameter"),
        ({"train_size": 1}, "'train_size' parameter"),
    ],
)
def test_wrong_parameters_are_named(params, words):
    X = vectors(np.random.default_rng(4), 60, 300)
    with pytest.raises(ValueError, match=words):
        ProjectionBank(16, **{"preserve": "distances"} | params).fit(X)


def test_wrong_rows_and_queries_are_named(data):
    Q, G, _ = data
    with pytest.raises(ValueError, match="'queries' parameter of ProjectionBank must be rows of 600 numbers"):
        bank_of(16).fit(G, queries=Q[:, :5])
    bad = G.copy()
    bad[700, 3] = np.nan
    with pytest.raises(ValueError, match="X contains NaN at row 700, column 3"):
        bank_of(16).fit(bad)
    with pytest.raises(ValueError, match="queries contains NaN at row 1, column 2"):
        bank_of(16).fit(G, queries=np.where(np.arange(1200).reshape(2, 600) == 602, np.nan, 0))
    with pytest.raises(ValueError, match="X is too large"):
        bank_of(16).fit(np.where(np.arange(600) == 5, 1e30 * G, G))
    with pytest.raises(ValueError, match="always learns anew"):
        bank_of(16).fit(G, start=bank_of(16).fit(G))


@pytest.mark.parametrize(("n_rows", "rank"), [(50, 12), (300, 12), (301, 40), (20, 64)])
def test_components_of_a_stream_are_those_of_all_rows(n_rows, rank):
    rng = np.random.default_rng(5)
    X = (rng.standard_normal((n_rows, 80)) * 0.8 ** np.arange(80) + 5 * rng.standard_normal(80)).astype(np.float32)
    found = streamed_components(ArrayRows(X), rank)
    np.testing.assert_allclose(found.means, X.mean(axis=0, dtype=float), atol=1e-5)
    k = found.directions.shape[1]
    assert k <= min(rank, n_rows)
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(k), atol=1e-3)
    exact = np.linalg.svd(X - X.mean(axis=0, dtype=float))
    np.testing.assert_allclose(found.variances[:5], exact[1][:5] ** 2 / n_rows, rtol=2e-2)
    few = min(5, k)
    np.testing.assert_allclose(np.abs((exact[2][:few] * found.directions[:, :few].T).sum(axis=1)), 1, atol=0.02)


@pytest.mark.parametrize(("n_features", "is_summed"), [(160, True), (161, False)])
def test_inner_products_of_few_columns_are_summed_exactly_for_any_number_of_threads(monkeypatch, n_features, is_summed):
    monkeypatch.setattr(components, "_PART", 50)
    rng = np.random.default_rng(6)
    X = (rng.standard_normal((500, n_features)) * 0.97 ** np.arange(n_features) + 9).astype(np.float32)
    X[:200] += 1  # blocks whose means differ
    found = streamed_components(ArrayRows(X), 10)
    exact = np.linalg.svd(X - X.mean(axis=0, dtype=float))[1][:10] ** 2 / 500
    assert np.allclose(found.variances, exact, rtol=1e-5) == is_summed
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(10), atol=1e-4)
    np.testing.assert_array_equal(streamed_components(ArrayRows(X), 10, 3).directions, found.directions)


def test_leading_values_are_those_of_scikit_learn(data):
    from sklearn.decomposition import PCA

    X = data[1][:300]
    found, expected = leading_values(ArrayRows(X), 5), PCA(5, svd_solver="full").fit_transform(X)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-3)
    np.testing.assert_array_equal(found, leading_values(ArrayRows(X), 5, 3))
