"""HammingIndex: exact results, ties, ids, adding and removing, and clear errors."""

import faiss
import numpy as np
import pytest

from projbank.bits import pack
from projbank.search import HammingIndex


def random_codes(n, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


def slow_search(codes, queries, k, ids=None, n_bits=None):
    """Order all codes by (distance, id)."""
    bits = np.unpackbits(codes, axis=1, count=n_bits, bitorder="little")
    points = np.unpackbits(queries, axis=1, count=n_bits, bitorder="little")
    ids = np.arange(len(codes)) if ids is None else np.asarray(ids)
    distances = (points[:, None] != bits[None]).sum(axis=2)
    order = np.lexsort((np.broadcast_to(ids, distances.shape), distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), ids[order]


def check_equal(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(
    ("n", "width", "n_queries", "k"), [(1, 1, 1, 1), (300, 1, 5, 20), (500, 125, 7, 33), (257, 40, 1, 257)]
)
def test_equals_a_full_sort(n, width, n_queries, k):
    codes, queries = random_codes(n, width), random_codes(n_queries, width, 1)
    distances, ids = HammingIndex(codes).search(queries, k)
    assert (distances.dtype, ids.dtype) == (np.int32, np.int64)
    check_equal((distances, ids), slow_search(codes, queries, k))


def test_distances_equal_faiss():
    codes, queries = random_codes(3000, 64), random_codes(20, 64, 1)
    index = faiss.IndexBinaryFlat(512)
    index.add(codes)
    expected, _ = index.search(queries, 50)
    np.testing.assert_array_equal(HammingIndex(codes).search(queries, 50)[0], expected)


@pytest.mark.parametrize("n_jobs", [1, 2, 5, None])
def test_same_result_for_any_number_of_threads_and_any_cut(n_jobs, monkeypatch):
    monkeypatch.setattr("projbank.search.scan.BYTES_PER_THREAD", 1)
    monkeypatch.setattr("projbank.search.scan.HEAP_BYTES", 12 * 40 * 3)
    monkeypatch.setattr("projbank.search.scan.BLOCK_BYTES", 64)
    codes, queries = random_codes(1003, 2), random_codes(11, 2, 1)  # 16 bits: ties everywhere
    check_equal(HammingIndex(codes).search(queries, 40, n_jobs=n_jobs), slow_search(codes, queries, 40))


def test_ties_go_to_the_smaller_own_id_in_any_order():
    codes = np.zeros((100, 9), dtype=np.uint8)
    ids = np.random.default_rng(0).permutation(1000)[:100] * 10**15
    index = HammingIndex(codes, ids=ids)
    for n_jobs in (1, 3):
        _, found = index.search(codes[:2], 7, n_jobs=n_jobs)
        np.testing.assert_array_equal(found, [np.sort(ids)[:7]] * 2)


def test_own_ids():
    codes, queries = random_codes(200, 3), random_codes(4, 3, 1)
    ids = np.random.default_rng(2).permutation(10**6)[:200]
    check_equal(HammingIndex(codes, ids=ids).search(queries, 30), slow_search(codes, queries, 30, ids))


def test_k_beyond_the_index_gives_every_code_once():
    codes = random_codes(5, 8)
    distances, ids = HammingIndex(codes).search(codes[:2], 100)
    assert distances.shape == ids.shape == (2, 5)
    np.testing.assert_array_equal(np.sort(ids, axis=1), [range(5)] * 2)


def test_no_queries_and_no_codes():
    index = HammingIndex(n_bits=13)
    assert (len(index), index.n_bits) == (0, 13)
    for queries in (np.zeros((3, 2), np.uint8), np.zeros((3, 13), np.float32)):
        values, ids = index.search(queries, 4)
        assert values.shape == ids.shape == (3, 0)
    index.add(random_codes(6, 2))
    for queries in (np.zeros((0, 2), np.uint8), np.zeros((0, 13), np.float32)):
        values, ids = index.search(queries, 4)
        assert values.shape == ids.shape == (0, 4)


def test_stray_padding_bits_do_not_count():
    codes, queries = random_codes(50, 2), random_codes(5, 2, 1)
    kept = codes.copy()
    expected = slow_search(codes, queries, 10, n_bits=11)
    check_equal(HammingIndex(codes, n_bits=11).search(queries, 10), expected)
    check_equal(HammingIndex(n_bits=11).add(codes).search(queries, 10), expected)
    np.testing.assert_array_equal(codes, kept)


def test_codes_are_not_copied_and_may_be_read_only():
    codes = random_codes(50, 5)
    codes.flags.writeable = False
    index = HammingIndex(codes)
    assert np.shares_memory(index.codes, codes)
    index.add(codes[:1])
    assert len(codes) == 50
    assert not index.codes.flags.writeable
    check_equal(index.search(codes[:3], 9), slow_search(np.concatenate([codes, codes[:1]]), codes[:3], 9))


def test_codes_with_other_strides():
    codes = random_codes(40, 6)
    check_equal(
        HammingIndex(codes[::2, 1:4]).search(codes[:3, 1:4], 5), slow_search(codes[::2, 1:4], codes[:3, 1:4], 5)
    )


def test_many_adds_equal_one():
    codes = random_codes(101, 7)
    index = HammingIndex(n_bits=56)
    for start in range(0, 101, 10):
        index.add(codes[start : start + 10])
    np.testing.assert_array_equal(index.codes, codes)
    np.testing.assert_array_equal(index.ids, np.arange(101))


def test_new_ids_continue_after_the_largest_ever_used(tmp_path):
    index = HammingIndex(random_codes(2, 1), ids=[7, 3])
    index.remove([7])
    index.save(tmp_path / "index.pbi")
    for again in (index, HammingIndex.load(tmp_path / "index.pbi")):
        again.add(random_codes(2, 1))
        assert again.ids.tolist() == [3, 8, 9]


def test_remove_then_search():
    codes, queries = random_codes(60, 2), random_codes(3, 2, 1)
    index = HammingIndex(codes)
    index.remove(np.arange(0, 60, 2))
    assert len(index) == 30
    check_equal(index.search(queries, 10), slow_search(codes[1::2], queries, 10, np.arange(1, 60, 2)))
    index.remove(index.ids)
    assert len(index) == 0
    index.add(codes[:1])
    assert index.ids.tolist() == [60]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda i: i.add(np.zeros((2, 3), np.uint8)), ValueError, "must have 2 bytes per code.*Got 3"),
        (lambda i: i.add(np.zeros((2, 2), np.int64)), TypeError, "dtype uint8. Got dtype int64"),
        (lambda i: i.add(np.zeros((2, 2), np.uint8), [1]), ValueError, r"shape \(2,\).*Got shape \(1,\)"),
        (lambda i: i.add(np.zeros((2, 2), np.uint8), [80, 80]), ValueError, "distinct. Got 80"),
        (lambda i: i.add(np.zeros((2, 2), np.uint8), [80, 3]), ValueError, "must be new. Got 3"),
        (lambda i: i.add(np.zeros((2, 2), np.uint8), [-1, 80]), ValueError, "range"),
        (lambda i: i.add(np.zeros((2, 2), np.uint8), [80.0, 81.0]), TypeError, "whole numbers"),
        (lambda i: i.remove([1, 99]), ValueError, "Got 99.*nothing was removed"),
        (lambda i: i.remove([1, 1]), ValueError, "distinct"),
    ],
)
def test_a_refused_change_leaves_the_index_as_it_was(change, error, message):
    index = HammingIndex(random_codes(5, 2))
    before = index.codes.copy()
    with pytest.raises(error, match=message):
        change(index)
    np.testing.assert_array_equal(index.codes, before)
    np.testing.assert_array_equal(index.ids, np.arange(5))


@pytest.mark.parametrize(
    ("queries", "options", "error", "message"),
    [
        (np.zeros((1, 3), np.uint8), {}, ValueError, "queries must have 2 bytes per code"),
        (np.zeros(2, np.uint8), {}, ValueError, "queries must be a 2-D array"),
        (np.zeros((1, 2), np.int32), {}, TypeError, "queries must be packed codes .uint8. or margins.*int32"),
        (np.zeros((1, 8)), {}, ValueError, r"shape \(n, 16\).*Got shape \(1, 8\)"),
        (np.zeros((1, 17)), {}, ValueError, r"shape \(n, 16\).*Got shape \(1, 17\)"),
        (np.zeros(16), {}, ValueError, r"shape \(n, 16\).*Got shape \(16,\)"),
        (np.full((1, 16), np.nan), {}, ValueError, "queries contains NaN at row 0, column 0"),
        (np.full((1, 16), 1e300), {}, ValueError, "queries contains infinity"),
        (np.zeros((1, 2), np.uint8), {"k": 0}, ValueError, "'k' parameter.*Got 0"),
        (np.zeros((1, 2), np.uint8), {"query_bits": 9}, ValueError, "'query_bits' parameter.*Got 9"),
        (np.zeros((1, 2), np.uint8), {"n_jobs": 0}, ValueError, "'n_jobs'"),
    ],
)
def test_bad_queries(queries, options, error, message):
    with pytest.raises(error, match=message):
        HammingIndex(random_codes(5, 2)).search(queries, **options)


def test_bad_construction():
    with pytest.raises(ValueError, match="needs codes, or n_bits"):
        HammingIndex()
    with pytest.raises(ValueError, match=r"2 bytes per code, as 9 bits need\. Got 3 bytes"):
        HammingIndex(random_codes(5, 3), n_bits=9)
    with pytest.raises(ValueError, match=r"distinct\. Got 4"):
        HammingIndex(random_codes(3, 3), ids=[4, 5, 4])


def test_bank_and_index_agree_on_the_order_of_bits():
    bits = np.zeros((2, 12), dtype=bool)
    bits[1, 9] = True
    index = HammingIndex(pack(bits), n_bits=12)
    margins = np.zeros((1, 12))
    margins[0, 9] = 5.0
    assert index.search(margins, 1)[1].tolist() == [[1]]
