"""The scans of lists against counting bits one by one, for every width around whole words and stages."""

import numpy as np
import pytest

from projbank.kernels.hamming_lists import count_bits
from projbank.search.lists import WORDS, Lists, Reach, in_lists, nearest_centres, nearest_in_lists, padded, stages
from projbank.search.scan import Part, nearest

EVERYTHING = 1 << 29


def random_codes(n, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


def distances(codes, queries):
    return np.bitwise_count(codes[None] ^ queries[:, None]).sum(axis=2, dtype=np.int32)


@pytest.mark.parametrize("width", [1, 7, 8, 9, 64, 8 * WORDS - 1, 8 * WORDS, 8 * WORDS + 1, 500, 1001])
@pytest.mark.parametrize("n", [1, 8, 61])
def test_lists_that_are_all_visited_give_what_a_scan_gives(width, n):
    codes, queries = random_codes(n, width), random_codes(5, width, 1)
    codes[n // 2 :] = codes[0]  # ties
    centres = codes[:: max(1, n // 5)]
    order, lists = in_lists(codes, centres, 2)
    assert sorted(order.tolist()) == list(range(n))
    part = Part(np.ascontiguousarray(codes[order]), order)
    reach = Reach(EVERYTHING, (float(EVERYTHING),) * (len(stages(width)) - 1))
    k = min(n, 9)
    for found, wanted in zip(
        nearest_in_lists(part, lists, queries, k, reach, 2), nearest([part], queries, k, 1), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("width", [1, 9, 200, 500])
def test_codes_go_to_the_first_of_their_nearest_centres(width):
    codes, centres = random_codes(100, width), random_codes(13, width, 1)
    expected = np.argmin(distances(centres, codes), axis=1)
    np.testing.assert_array_equal(nearest_centres(codes, centres, 2), expected)
    lists = Lists(centres, np.zeros(14, np.int64), np.zeros((0, 1, 8), np.uint64))
    np.testing.assert_array_equal(lists.apart(padded(codes)), distances(codes, centres))


@pytest.mark.parametrize("n_bits", [1, 7, 64, 1001])
def test_bits_are_counted(n_bits):
    codes = random_codes(50, (n_bits + 7) // 8)
    labels = np.random.default_rng(1).integers(0, 4, 50).astype(np.int32)
    counts = np.zeros((4, n_bits), np.int32)
    count_bits(codes, n_bits, labels, counts)
    bits = np.unpackbits(codes, axis=1, bitorder="little")[:, :n_bits]
    np.testing.assert_array_equal(counts, [bits[labels == label].sum(axis=0) for label in range(4)])


def test_stages_double():
    assert stages(8 * WORDS).tolist() == [8 * WORDS]
    assert stages(20 * WORDS).tolist() == [8 * WORDS, 16 * WORDS, 20 * WORDS]
