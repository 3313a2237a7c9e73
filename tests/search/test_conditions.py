"""Search with conditions: allow-lists, distance limits, all within a distance; and codes given back."""

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projbank.search import HammingIndex
from tests.search.reference import all_distances, slow_search

NOTHING = np.iinfo(np.int32).max


def check_equal(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@st.composite
def cases(draw, n_bits=None):
    """Codes with many ties, own ids, queries among and around them."""
    n_bits = draw(st.integers(1, 300)) if n_bits is None else draw(n_bits)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, width = draw(st.integers(1, 60)), (n_bits + 7) // 8
    codes = rng.integers(0, 256, (n, width), dtype=np.uint8)
    codes[rng.random(n) < 0.5] = codes[0]
    ids = rng.permutation(5 * n)[:n] if draw(st.booleans()) else np.arange(n)
    queries = np.concatenate([codes[:2], rng.integers(0, 256, (draw(st.integers(0, 4)), width), dtype=np.uint8)])
    return rng, codes, ids, queries, n_bits


@given(case=cases(), k=st.integers(1, 70), limited=st.booleans(), as_mask=st.booleans(), n_jobs=st.sampled_from([1, 3]))
@settings(max_examples=120, deadline=None)
def test_conditions_equal_a_sort_of_what_they_leave(case, k, limited, as_mask, n_jobs):
    rng, codes, ids, queries, n_bits = case
    mask = rng.random(len(codes)) < rng.random()
    most = int(rng.integers(0, n_bits + 1)) if limited else None
    index = HammingIndex(codes, ids=ids, n_bits=n_bits)
    allow = mask if as_mask else rng.permutation(np.concatenate([ids[mask], ids[mask][:3], [10**9]]))
    k = min(k, len(codes))
    expected = slow_search(codes, queries, k, ids, n_bits, set(ids[mask].tolist()), most)
    check_equal(index.search(queries, k, allow=allow, max_distance=most, n_jobs=n_jobs), expected)


@given(case=cases(), limited=st.booleans())
@settings(max_examples=60, deadline=None)
def test_range_search_lists_all_within_a_distance(case, limited):
    rng, codes, ids, queries, n_bits = case
    mask = rng.random(len(codes)) < 0.6
    most = int(rng.integers(0, n_bits + 2))
    index = HammingIndex(codes, ids=ids, n_bits=n_bits)
    allow = ids[mask] if limited else None
    limits, distances, found = index.range_search(queries, most, allow=allow, n_jobs=2)
    allowed = set(ids[mask].tolist()) if limited else None
    expected = slow_search(codes, queries, len(codes), ids, n_bits, allowed, most)
    assert (limits.dtype, distances.dtype, found.dtype) == (np.int64, np.int32, np.int64)
    for q in range(len(queries)):
        some = slice(limits[q], limits[q + 1])
        count = int(np.sum(expected[1][q] >= 0))
        np.testing.assert_array_equal(distances[some], expected[0][q, :count])
        np.testing.assert_array_equal(found[some], expected[1][q, :count])
    assert limits[0] == 0
    assert limits[-1] == len(found)


@given(case=cases(st.sampled_from([32, 64, 72, 256, 1000, 4096, 65_536])))
@settings(max_examples=25, deadline=None)
def test_all_of_faiss_binary_semantics(case):
    """search, range_search, reconstruct, remove and add after remove, as IndexBinaryFlat has them; ties aside."""
    rng, codes, ids, queries, n_bits = case
    ids = ids.astype(np.int64)
    flat = faiss.IndexBinaryFlat(n_bits)
    peer = faiss.IndexBinaryIDMap2(flat)
    index = HammingIndex(n_bits=n_bits)

    def compare():
        held = np.sort(faiss.vector_to_array(peer.id_map))
        np.testing.assert_array_equal(np.sort(index.ids), held)
        k = len(index) + 2
        distances, found = index.search(queries, k)
        expected, expected_ids = peer.search(queries, k)
        width = distances.shape[1]
        np.testing.assert_array_equal(distances, expected[:, :width])
        assert np.all(expected_ids[:, width:] == -1)
        most = int(rng.integers(0, n_bits + 1))
        limits, distances, found = index.range_search(queries, most)
        peer_limits, peer_distances, peer_ids = peer.range_search(queries, most + 1)  # FAISS: less than its radius
        np.testing.assert_array_equal(limits, peer_limits)
        for q in range(len(queries)):
            some = slice(limits[q], limits[q + 1])
            order = np.lexsort((peer_ids[some], peer_distances[some]))
            np.testing.assert_array_equal(distances[some], peer_distances[some][order])
            np.testing.assert_array_equal(found[some], peer_ids[some][order])
        if len(held):
            some = rng.choice(held, 3)
            np.testing.assert_array_equal(index.reconstruct(some), np.stack([peer.reconstruct(int(i)) for i in some]))

    def add(rows, own):
        if len(own):
            index.add(codes[rows], own)
            peer.add_with_ids(codes[rows], own)

    half = len(ids) // 2
    add(slice(half), ids[:half])
    add(slice(half, None), ids[half:])
    compare()
    gone = rng.choice(ids, rng.integers(0, len(ids) + 1), replace=False)
    index.remove(gone)
    peer.remove_ids(gone)
    if len(index):
        compare()
    add(slice(len(gone)), gone)
    compare()


def test_range_search_with_many_results():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (20_000, 2), dtype=np.uint8)
    limits, distances, ids = HammingIndex(codes).range_search(codes[:3], 16, n_jobs=2)
    assert np.diff(limits).tolist() == [20_000] * 3
    expected = np.sort(all_distances(codes, codes[:1], 16)[0])
    np.testing.assert_array_equal(distances[:20_000], expected)
    assert len(set(ids[:20_000].tolist())) == 20_000


def test_conditions_hold_for_margins_and_for_both_stages():
    rng = np.random.default_rng(0)
    codes, vectors = rng.integers(0, 256, (200, 4), dtype=np.uint8), rng.standard_normal((200, 6))
    margins, index = rng.standard_normal((5, 32)), HammingIndex(codes)
    allowed = np.arange(0, 200, 7)
    scores, ids = index.search(margins, 40, allow=allowed)
    full_scores, full_ids = index.search(margins, 200)
    for q in range(5):
        kept = np.isin(full_ids[q], allowed)
        np.testing.assert_array_equal(ids[q, :29], full_ids[q, kept])
        np.testing.assert_array_equal(scores[q, :29], full_scores[q, kept])
    assert np.all(ids[:, 29:] == -1)
    assert np.all(scores[:, 29:] == -np.inf)
    for rerank, most in (("asymmetric", -np.inf), (vectors, np.inf)):
        values, ids = index.search(
            margins, 40, rerank=rerank, query_vectors=None if rerank is not vectors else vectors[:5], allow=allowed
        )
        assert [set(row) for row in ids[:, :29].tolist()] == [set(allowed.tolist())] * 5
        assert np.all(ids[:, 29:] == -1)
        assert np.all(values[:, 29:] == most)
    _, ids = index.search(margins, 40, rerank="asymmetric", max_distance=9)
    near = index.range_search(np.packbits(margins > 0, axis=1, bitorder="little"), 9)
    for q in range(5):
        assert set(ids[q].tolist()) - {-1} == set(near[2][near[0][q] : near[0][q + 1]].tolist())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"allow": np.ones(4, bool)}, ValueError, r"allow must be ids or a mask of shape \(5,\)"),
        ({"allow": [1.5]}, TypeError, "whole numbers or texts"),
        ({"allow": ["a"], "max_distance": -1}, ValueError, "'max_distance'.*Got -1"),
    ],
)
def test_bad_conditions(options, error, message):
    index = HammingIndex(np.zeros((5, 2), np.uint8))
    with pytest.raises(error, match=message):
        index.search(np.zeros((1, 2), np.uint8), **options)


def test_a_distance_limit_is_for_codes():
    index = HammingIndex(np.zeros((5, 2), np.uint8))
    with pytest.raises(ValueError, match="max_distance is a Hamming distance"):
        index.search(np.zeros((1, 16)), max_distance=3)
    with pytest.raises(TypeError, match="queries must be packed bits"):
        index.range_search(np.zeros((1, 16)), 3)


def test_nothing_allowed_and_nothing_stored():
    index = HammingIndex(np.zeros((5, 2), np.uint8))
    distances, ids = index.search(np.zeros((2, 2), np.uint8), 3, allow=[])
    assert (distances.tolist(), ids.tolist()) == ([[NOTHING] * 3] * 2, [[-1] * 3] * 2)
    empty = HammingIndex(n_bits=16)
    assert empty.range_search(np.zeros((2, 2), np.uint8), 3)[0].tolist() == [0, 0, 0]
    assert empty.search(np.zeros((2, 2), np.uint8), 3, allow=np.zeros(0, bool))[1].shape == (2, 0)
    assert index.range_search(np.zeros((0, 2), np.uint8), 3)[0].tolist() == [0]


def test_reconstruct_and_unknown_ids():
    codes = np.arange(10, dtype=np.uint8).reshape(5, 2)
    index = HammingIndex(codes, ids=[8, 3, 5, 1, 0], n_bits=12)
    np.testing.assert_array_equal(index.reconstruct([1, 8, 1]), [[6, 7], [0, 1], [6, 7]])
    with pytest.raises(ValueError, match="Got 2, which it does not hold"):
        index.reconstruct([1, 2])
