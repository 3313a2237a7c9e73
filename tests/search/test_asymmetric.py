"""Real-valued queries: exact for the rounded margins, close to the real ones, and as a second stage."""

import numpy as np
import pytest

from projbank.bits import pack, unpack
from projbank.search import HammingIndex
from projbank.search.margins import quantise


@pytest.fixture(params=[7, 64, 1001])
def case(request):
    rng = np.random.default_rng(request.param)
    n_bits = request.param
    codes = pack(rng.random((300, n_bits)) < 0.5)
    return HammingIndex(codes, n_bits=n_bits), rng.standard_normal((6, n_bits)).astype(np.float32)


def naive_scores(index, integers):
    """Sum over bits of +q where the stored bit is 1 and -q where it is 0."""
    signs = np.where(unpack(index.codes, index.n_bits), 1, -1)
    return integers.astype(np.int64) @ signs.T


def naive_top(scores, ids, k):
    order = np.lexsort((np.broadcast_to(ids, scores.shape), -scores), axis=1)[:, :k]
    return np.take_along_axis(scores, order, axis=1), ids[order]


@pytest.mark.parametrize("query_bits", [2, 3, 4, 8])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_search_is_exact_for_the_rounded_margins(case, query_bits, n_jobs, monkeypatch):
    monkeypatch.setattr("projbank.search.scan.BYTES_PER_THREAD", 1)
    index, margins = case
    integers, scale = quantise(margins, query_bits)
    expected, expected_ids = naive_top(naive_scores(index, integers), index.ids, 50)
    scores, ids = index.search(margins, 50, query_bits=query_bits, n_jobs=n_jobs)
    assert (scores.dtype, ids.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(scores, (expected * scale[:, None]).astype(np.float32))


@pytest.mark.parametrize("rerank", [None, "asymmetric"])
def test_an_index_that_was_not_told_the_length_of_codes_finds_the_same(case, rerank):
    index, margins = case
    untold = HammingIndex(index.codes)
    for found, expected in zip(
        untold.search(margins, 50, rerank=rerank), index.search(margins, 50, rerank=rerank), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="must be margins of shape"):
        untold.search(margins[:, : 8 * (index.codes.shape[1] - 1)])
    with pytest.raises(ValueError, match="must be margins of shape"):
        index.search(margins[:, :-1])


def test_own_ids_and_ties():
    rng = np.random.default_rng(0)
    codes, own = pack(rng.random((200, 9)) < 0.5), rng.permutation(10**5)[:200] * 10**4
    index = HammingIndex(codes, ids=own, n_bits=9)
    margins = np.sign(rng.standard_normal((4, 9)))
    expected, expected_ids = naive_top(naive_scores(index, margins), own, 60)
    scores, ids = index.search(margins, 60)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


@pytest.mark.parametrize("query_bits", [2, 4, 8])
@pytest.mark.parametrize("spread", [1e-30, 1.0, 1e30])
def test_rounding(query_bits, spread):
    rng = np.random.default_rng(query_bits)
    margins = (rng.standard_normal((40, 500)) * spread).astype(np.float32)
    integers, scale = quantise(margins, query_bits)
    top = 2 ** (query_bits - 1) - 1
    assert integers.dtype == np.int8
    assert np.abs(integers).max() == top
    expected = np.clip(np.rint(margins / scale[:, None]), -top, top)
    np.testing.assert_array_equal(integers, expected)
    error = np.linalg.norm(integers * (scale[:, None] / spread) - margins / spread, axis=1)
    plain = np.abs(margins).max(axis=1) / top
    plain_error = np.linalg.norm(
        np.rint(margins / plain[:, None]) * (plain[:, None] / spread) - margins / spread, axis=1
    )
    assert np.all(error <= plain_error * (1 + 1e-5))


def test_a_query_of_zeros_scores_zero(case):
    index, margins = case
    scores, ids = index.search(np.zeros_like(margins), 5)
    assert not scores.any()
    np.testing.assert_array_equal(ids, [range(5)] * len(margins))


def test_one_huge_margin_does_not_silence_nan_free_search():
    index = HammingIndex(pack(np.eye(16, dtype=bool)))
    margins = np.full((1, 16), 1e-3)
    margins[0, 5] = 3e38
    assert index.search(margins, 1)[1].tolist() == [[5]]


def test_more_bits_come_closer_to_the_real_scores():
    rng = np.random.default_rng(3)
    index = HammingIndex(pack(rng.random((2000, 512)) < 0.5))
    margins = rng.standard_normal((20, 512)).astype(np.float32)
    _, true = naive_top(margins @ np.where(unpack(index.codes, 512), 1, -1).T, index.ids, 20)
    recall = {
        query_bits: np.mean(
            [
                np.isin(a, b).mean()
                for a, b in zip(true, index.search(margins, 20, query_bits=query_bits)[1], strict=True)
            ]
        )
        for query_bits in (2, 4, 8)
    }
    hamming = np.mean([np.isin(a, b).mean() for a, b in zip(true, index.search(pack(margins > 0), 20)[1], strict=True)])
    assert hamming < recall[2] < recall[4] < recall[8]
    assert recall[8] > 0.97


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_float_type(case, dtype):
    index, margins = case
    rounded = margins.astype(dtype)
    np.testing.assert_array_equal(index.search(rounded, 5)[1], index.search(rounded.astype(np.float32), 5)[1])


def test_second_stage_with_a_full_shortlist_equals_the_full_search(case):
    index, margins = case
    for found, expected in zip(
        index.search(margins, 20, rerank="asymmetric", shortlist=10**6), index.search(margins, 20), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_second_stage_orders_the_hamming_shortlist():
    rng = np.random.default_rng(1)
    own = rng.permutation(10**6)[:400]
    index = HammingIndex(pack(rng.random((400, 20)) < 0.5), ids=own, n_bits=20)
    margins = rng.standard_normal((5, 20))
    _, shortlist = index.search(pack(margins > 0), 30)
    integers, scale = quantise(margins, 4)
    rows = {ident: row for row, ident in enumerate(own.tolist())}
    scores, ids = index.search(margins, 8, rerank="asymmetric", shortlist=30, n_jobs=2)
    all_scores = naive_scores(index, integers)
    for q in range(5):
        picks = sorted((-all_scores[q, rows[ident]], ident) for ident in shortlist[q].tolist())[:8]
        assert ids[q].tolist() == [ident for _, ident in picks]
        np.testing.assert_allclose(scores[q], [-value * scale[q] for value, _ in picks], rtol=1e-6)


def test_second_stage_needs_margins(case):
    index, _ = case
    with pytest.raises(TypeError, match="queries must be margins"):
        index.search(index.codes[:1], 5, rerank="asymmetric")
