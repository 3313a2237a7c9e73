"""Less than a scan: what is found is true, enough is found, and everything else stays exact."""

import numpy as np
import pytest

from projbank.bits import pack
from projbank.search import HammingIndex

LEAST = 400


@pytest.fixture(autouse=True)
def small_lists(monkeypatch):
    monkeypatch.setattr("projbank.search.index.LEAST_CODES", LEAST)
    monkeypatch.setattr("projbank.search.lists.CODES_PER_LIST", 40)
    monkeypatch.setattr("projbank.search.coarse.SIZES", (1, 10, 50))
    monkeypatch.setattr("projbank.search.coarse.COPIES", 60)


def clustered(n, n_bits, seed=0, centres=60, noise=0.15):
    """Codes around centres, and queries around the same."""
    rng = np.random.default_rng(seed)
    hubs = rng.random((centres, n_bits)) < 0.5
    bits = hubs[rng.integers(0, centres, n + 100)] ^ (rng.random((n + 100, n_bits)) < noise)
    codes = pack(bits)
    return codes[:n], codes[n:]


def share_found(index, exact, queries, k):
    found, truth = index.search(queries, k)[1], exact.search(queries, k)[1]
    return np.mean([np.isin(a, b).mean() for a, b in zip(truth, found, strict=True)])


@pytest.mark.parametrize("n_bits", [32, 100, 1024, 1100, 4000])
@pytest.mark.parametrize("recall", [0.9, 0.99])
def test_recall_is_kept_for_new_queries(n_bits, recall):
    codes, queries = clustered(4000, n_bits)
    index, exact = HammingIndex(codes, n_bits=n_bits, recall=recall), HammingIndex(codes, n_bits=n_bits)
    for k in (1, 10, 50):
        assert share_found(index, exact, queries, k) >= recall - 0.02
    distances, ids = index.search(queries, 10)
    true = np.unpackbits(index.reconstruct(ids.reshape(-1)).reshape(100, 10, -1) ^ queries[:, None], axis=2).sum(axis=2)
    np.testing.assert_array_equal(distances, true)
    assert np.all(np.diff(distances, axis=1) >= 0)


@pytest.mark.parametrize("recall", [0.9, 0.99])
def test_recall_is_kept_where_codes_have_copies_and_queries_have_none(recall):
    codes, queries = clustered(500, 512, noise=0.25)
    copies = np.repeat(codes, 8, axis=0)
    copies ^= pack(np.random.default_rng(1).random((4000, 512)) < 1 / 16)
    index, exact = HammingIndex(copies, recall=recall), HammingIndex(copies)
    assert share_found(index, exact, queries, 10) >= recall - 0.02


def test_a_result_depends_on_nothing_but_the_query(monkeypatch):
    codes, queries = clustered(5000, 2000)
    index = HammingIndex(codes, recall=0.9)
    expected = index.search(queries, 10, n_jobs=1)
    for n_jobs, at_once in ((2, 512), (1, 7), (3, 1)):
        monkeypatch.setattr("projbank.search.lists.QUERIES_PER_CALL", at_once)
        for found, wanted in zip(index.search(queries, 10, n_jobs=n_jobs), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    again = HammingIndex(codes, recall=0.9, n_jobs=3)
    np.testing.assert_array_equal(again.search(queries, 10)[1], expected[1])


def test_all_else_is_exact():
    codes, queries = clustered(3000, 200)
    index, exact = HammingIndex(codes, recall=0.5), HammingIndex(codes)
    margins = np.random.default_rng(1).standard_normal((5, 200))
    for one, other in [
        (index.search(queries, 10, allow=np.arange(2000)), exact.search(queries, 10, allow=np.arange(2000))),
        (index.search(queries, 60), exact.search(queries, 60)),  # more than the reach was measured for
        (index.search(margins, 10), exact.search(margins, 10)),
        (index.range_search(queries, 60), exact.range_search(queries, 60)),
        (index.search(queries, 3000), exact.search(queries, 3000)),
    ]:
        for found, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_shortlists_come_from_the_lists():
    codes, queries = clustered(5000, 300)
    index, exact = HammingIndex(codes, recall=0.99), HammingIndex(codes)
    margins = np.unpackbits(queries, axis=1, bitorder="little")[:, :304] - 0.5
    found = index.search(margins, 5, rerank="asymmetric", shortlist=50)[1]
    truth = exact.search(margins, 5, rerank="asymmetric", shortlist=50)[1]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(truth, found, strict=True)]) > 0.95


def test_a_distance_limit_holds_in_lists():
    codes, queries = clustered(5000, 256)
    index = HammingIndex(codes, recall=0.99)
    distances, ids = index.search(queries, 50, max_distance=60)
    assert np.all((distances <= 60) == (ids >= 0))
    whole = HammingIndex(codes).search(queries, 50, max_distance=60)[1]
    assert np.sum(ids >= 0) >= 0.97 * np.sum(whole >= 0)


def test_removed_and_added_codes():
    codes, queries = clustered(4000, 128)
    ids = np.random.default_rng(3).permutation(9000)[:4000]
    index = HammingIndex(codes, ids=ids, recall=0.99)
    gone = ids[::3]
    index.remove(gone).add(queries[:50], np.arange(20_000, 20_050))
    exact = HammingIndex(codes, ids=ids).remove(gone).add(queries[:50], np.arange(20_000, 20_050))
    assert sorted(index.ids.tolist()) == sorted(exact.ids.tolist())
    _, found = index.search(queries, 10)
    assert not np.isin(found, gone).any()
    np.testing.assert_array_equal(found[:50, 0], np.arange(20_000, 20_050))
    assert share_found(index, exact, queries, 10) > 0.97
    np.testing.assert_array_equal(index.reconstruct(ids[1:3]), codes[1:3])


def test_an_index_that_grows_from_nothing_gets_lists():
    codes, queries = clustered(8000, 256)
    index = HammingIndex(n_bits=256, recall=0.9)
    for start in range(0, 8000, 500):
        index.add(codes[start : start + 500])
    assert share_found(index, HammingIndex(codes), queries, 10) >= 0.9
    visited = index.search(queries, 50, max_distance=256)[1]
    assert visited.shape == (100, 50)


def test_too_few_neighbours_in_the_lists_are_made_up_by_a_scan():
    rng = np.random.default_rng(0)
    codes = pack(np.repeat(rng.random((100, 64)) < 0.5, 10, axis=0))
    index = HammingIndex(codes, recall=0.1)
    distances, ids = index.search(codes[:30], 50)
    assert ids.min() >= 0
    assert distances.max() <= 64


@pytest.mark.parametrize("named", [False, True])
def test_lists_are_kept_in_the_file(tmp_path, named):
    codes, queries = clustered(3000, 1200)
    names = [f"n{i}" for i in range(3000)] if named else None
    index = HammingIndex(codes, ids=names, recall=0.9, payload=list(range(3000)))
    expected = index.search(queries, 10)
    index.save(tmp_path / "index.pbi")
    again = HammingIndex.load(tmp_path / "index.pbi")
    assert (again.recall, again.payload(again.ids[:5])) == (0.9, index.payload(index.ids[:5]))
    for found, wanted in zip(again.search(queries, 10), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    again.add(queries[:5], [f"q{i}" for i in range(5)] if named else None).remove(again.ids[:7]).save()
    third = HammingIndex.load(tmp_path / "index.pbi")
    for found, wanted in zip(third.search(queries, 10), again.search(queries, 10), strict=True):
        np.testing.assert_array_equal(found, wanted)
    more, _ = clustered(4000, 1200, seed=5)
    third.add(more, [f"m{i}" for i in range(4000)] if named else None).save()  # as many again: lists made anew
    fourth = HammingIndex.load(tmp_path / "index.pbi")
    assert (len(fourth), fourth.recall) == (6998, 0.9)
    for found, wanted in zip(fourth.search(queries, 10), third.search(queries, 10), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_few_codes_are_kept_without_lists(tmp_path):
    path, codes = tmp_path / "index.pbi", clustered(30, 64)[0]
    HammingIndex(n_bits=64, recall=0.9).save(path)
    for change in (lambda i: i.add(codes), lambda i: i.remove([3]).add(codes[:1]), lambda i: i.remove(i.ids)):
        change(HammingIndex.load(path)).save()
        change_whole = HammingIndex.load(path)
        change_whole.save(path)
        again = HammingIndex.load(path)
        assert (len(again), again.recall) == (len(change_whole), 0.9)
        assert again.search(codes[:2], 5)[1].shape == (2, min(5, len(again)))


@pytest.mark.parametrize("recall", [0, 1, 1.5, -0.1, "0.9", True, np.nan])
def test_bad_recall(recall):
    with pytest.raises(ValueError, match=r"'recall' parameter.*\(0.0, 1.0\)"):
        HammingIndex(n_bits=8, recall=recall)
