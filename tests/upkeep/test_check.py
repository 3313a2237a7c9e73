"""Figures of a check against literal computations over all pairs."""

import dataclasses
import json

import faiss
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from projbank import HammingIndex, ProjectionBank, check
from projbank.bits import pack, unpack
from projbank.integrity import IdentityError
from projbank.rows.source import as_rows
from projbank.upkeep.sources import open_codes
from projbank.upkeep.truth import Estimate, exact_neighbors, found_shares


def ranked(distances, own):
    """Other rows by (distance, id)."""
    orders = [np.lexsort((np.arange(len(row)), row)) for row in distances]
    return np.array([order[order != i] for i, order in zip(own, orders, strict=True)])


def literal_distances(X, metric):
    wide = X.astype(np.float64)
    if metric == "cosine":
        wide /= np.linalg.norm(wide, axis=1)[:, None]
    return np.sqrt(((wide[:, None] - wide) ** 2).sum(axis=2))


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 40), st.integers(1, 12), st.integers(0, 2**31), st.sampled_from(["l2", "cosine"]), st.booleans())
def test_exact_neighbors_with_their_ties(n, d, seed, metric, small):
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 4, (n, d)).astype(np.float32) if small else rng.standard_normal((n, d), np.float32)
    queries = np.sort(rng.permutation(n)[: max(1, n // 2)])
    k = int(rng.integers(1, n))
    expected = ranked(np.round(literal_distances(X, metric)[queries], 9), queries)[:, :k]
    np.testing.assert_array_equal(exact_neighbors(as_rows(X), queries, k, metric, n_threads=2), expected)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("n_bits", [7, 64, 130])
def test_figures_are_those_of_all_pairs(n_bits, metric):
    rng = np.random.default_rng(n_bits)
    X = rng.standard_normal((150, 300), np.float32)
    labels = rng.integers(0, 4, 150)
    bank = ProjectionBank(n_bits=n_bits, solver="random").fit(X)
    found = check(bank, X, labels=labels, n_queries=1000, metric=metric)
    everything, floats = np.arange(150), literal_distances(X, metric)
    bits = unpack(bank.transform(X), n_bits)
    hamming = (bits[:, None] != bits).sum(axis=2)
    true, near = ranked(floats, everything), ranked(hamming, everything)
    for k in (10, 100):
        expected = found_shares(near[:, :k], true[:, :k]).mean()
        assert found.recall[k] == pytest.approx([expected] * 3)  # all were asked: nothing is left to guess
        assert found.precision["codes"][k] == pytest.approx(np.mean(labels[near[:, :k]] == labels[:, None]))
        assert found.precision["floats"][k] == pytest.approx(np.mean(labels[true[:, :k]] == labels[:, None]))
    assert found.shortlist[100] == pytest.approx(found_shares(near[:, :100], true[:, :10]).mean())
    off = ~np.eye(150, dtype=bool)
    correlations = [scipy.stats.spearmanr(floats[i, off[i]], hamming[i, off[i]])[0] for i in everything]
    assert found.rank_correlation.value == pytest.approx(np.mean(correlations), abs=1e-9)
    assert (found.vector_bytes, found.code_bytes) == (1200, -(-n_bits // 8))


def test_asymmetric_recall_is_that_of_the_index():
    X = np.random.default_rng(1).standard_normal((120, 200), np.float32)
    bank = ProjectionBank(n_bits=64, solver="random").fit(X)
    index = HammingIndex(bank.transform(X), n_bits=64)
    _, ids = index.search(bank.query_values(X), 120)
    near = np.array([[j for j in row if j != i][:10] for i, row in enumerate(ids)])
    true = ranked(literal_distances(X, "l2"), np.arange(120))[:, :10]
    assert check(bank, X).asymmetric[10].value == pytest.approx(found_shares(near, true).mean())


def test_codes_of_any_origin_give_the_same_figures(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((90, 100), np.float32)
    bits = X @ rng.standard_normal((100, 64)) > 0
    codes = pack(bits)
    expected = check(None, X, codes=codes).as_dict()
    flat, inverted = faiss.IndexBinaryFlat(64), faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(64), 64, 4)
    graph = faiss.IndexBinaryHNSW(64, 8)
    inverted.cp.min_points_per_centroid = 1
    inverted.train(codes)
    for name, index in (("flat", flat), ("ivf", inverted), ("hnsw", graph)):
        index.add(codes)
        faiss.write_index_binary(index, str(tmp_path / name))
        stored = open_codes(tmp_path / name)
        order = np.argsort(stored.ids) if stored.ids is not None else slice(None)
        np.testing.assert_array_equal(stored.codes[order], codes)
        if name != "ivf":
            assert check(None, X, codes=stored.codes, ids=stored.ids).as_dict() == expected
    index = HammingIndex(codes)
    index.save(tmp_path / "i.pbi")
    assert check(None, X, codes=HammingIndex.load(tmp_path / "i.pbi")).as_dict() == expected
    np.save(tmp_path / "c.npy", codes)
    assert check(None, X, codes=open_codes(tmp_path / "c.npy").codes).as_dict() == expected


def test_an_index_of_some_rows():
    X = np.random.default_rng(3).standard_normal((80, 50), np.float32)
    bank = ProjectionBank(n_bits=40, solver="random").fit(X)
    rows = np.arange(0, 80, 2)
    index = HammingIndex(bank.transform(X[rows]), ids=rows, n_bits=40, made_by=bank.identity())
    assert check(bank, X, codes=index).recall == check(bank, X[rows]).recall


def test_codes_of_another_bank_are_refused():
    X = np.random.default_rng(4).standard_normal((30, 50), np.float32)
    one, other = (ProjectionBank(n_bits=16, solver="random", random_state=seed).fit(X) for seed in (0, 1))
    index = HammingIndex(one.transform(X), n_bits=16, made_by=one.identity())
    with pytest.raises(IdentityError, match="projbank recode"):
        check(other, X, codes=index)


def test_the_interval_holds_the_recall_of_all_queries():
    rng = np.random.default_rng(5)
    population = rng.binomial(10, rng.beta(2, 3, 3000)) / 10
    held = 0
    for _ in range(400):
        one = Estimate.of(rng.choice(population, 200, replace=False), 3000)
        held += one.low <= population.mean() <= one.high
    assert 370 <= held <= 398
    assert Estimate.of(np.ones(50), 1000).low < 0.99


def test_codes_that_keep_everything_need_no_advice():
    X = np.where(np.random.default_rng(6).random((200, 96)) < 0.5, -1, 1).astype(np.float32)
    found = check(None, X, codes=pack(X > 0))
    assert found.recall[10].value == 1
    assert "bits of the same kind" not in " ".join(found.advice)


def test_harmful_drift_comes_first_and_few_vectors_are_not_reranked():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((1200, 30), np.float32)
    bank = ProjectionBank(n_bits=16, solver="random").fit(X[600:])
    found = check(bank, X, new=X[600:] * 0 + rng.standard_normal(30, np.float32), reference=X[:600])
    harmful = dataclasses.replace(found, drift=dataclasses.replace(found.drift, cost=Estimate(0.3, 0.2, 0.4)))
    assert harmful.drift.verdict == "harmful"
    assert harmful.advice[0] == harmful.drift.words
    assert found.shortlist.keys() == {100, 1000}
    assert "re-rank the first 100 " in " ".join(found.advice)
    assert "1,000 by the floats" not in " ".join(found.advice)


def test_more_bits_of_a_random_code_are_foretold():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((600, 64), np.float32) @ rng.standard_normal((64, 200)).astype(np.float32)
    planes = rng.standard_normal((200, 1024))
    foretold = check(None, X, codes=pack(X @ planes[:, :256] > 0)).more_bits
    for n_bits in (512, 1024):
        measured = check(None, X, codes=pack(X @ planes[:, :n_bits] > 0)).recall[10].value
        assert foretold[n_bits] == pytest.approx(measured, abs=0.06)


def test_the_table_has_80_columns_and_the_rest_is_json(tmp_path):
    X = np.random.default_rng(8).standard_normal((60, 40), np.float32)
    found = check(ProjectionBank(n_bits=8, solver="random").fit(X), X, labels=np.arange(60) % 3)
    assert max(map(len, str(found).splitlines())) <= 80
    assert json.loads(json.dumps(found.as_dict()))["recall"]["10"]["value"] == found.recall[10].value
    pytest.importorskip("matplotlib")
    found.save_picture(tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        found.save_picture(tmp_path / "p.gif")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "a bank, or codes"),
        ({"codes": np.zeros((5, 2), np.uint8)}, "one per row of X"),
        ({"codes": np.zeros((9, 2), np.uint8), "metric": "l1"}, "metric"),
        ({"codes": np.zeros((9, 2), np.uint8), "n_queries": 0}, "n_queries"),
        ({"codes": np.zeros((9, 2), np.uint8), "labels": [1, 2]}, "labels"),
        ({"codes": np.zeros((9, 2), np.uint8), "new": np.zeros((9, 4))}, "give bank"),
        ({"codes": np.zeros((2, 2), np.uint8), "ids": [0, 99], "n_bits": 9}, "at least 3"),
        ({"codes": np.zeros((3, 2), np.uint8), "ids": [0, 1, 99]}, "rows of X"),
    ],
)
def test_errors_name_the_argument(given, words):
    with pytest.raises(ValueError, match=words):
        check(None, np.random.default_rng(0).standard_normal((9, 4)), **given)


def test_one_bank_in_a_file_and_few_vectors(tmp_path):
    X = np.random.default_rng(9).standard_normal((3, 65_537), np.float32)
    ProjectionBank(n_bits=7, solver="random").fit(X).save(tmp_path / "b.safetensors")
    found = check(tmp_path / "b.safetensors", X)
    assert list(found.recall) == [2]
    assert found.recall[2].value == 1
