"""The scan kernel against counting bits one by one, for every width up to several blocks."""

import subprocess
import sys

import numpy as np
import pytest

from projbank.search.margins import weigh
from projbank.search.scan import Part, nearest, nearest_weighted, weighted_distances

WIDTHS = [*range(1, 70), 95, 125, 127, 128, 250, 255, 256, 257, 287, 500, 511, 513, 1000, 1250, 8000]


def slow_distances(codes, queries):
    bits = np.unpackbits(codes, axis=1).astype(int)
    query_bits = np.unpackbits(queries, axis=1).astype(int)
    return np.array([[np.sum(a != b) for b in bits] for a in query_bits])


def slow_nearest(distances, ids, k):
    picks = [sorted(zip(row.tolist(), ids.tolist(), strict=True))[:k] for row in distances]
    return np.array([[d for d, _ in row] for row in picks]), np.array([[i for _, i in row] for row in picks])


@pytest.mark.parametrize("width", WIDTHS)
def test_scan_equals_counting_bits(width):
    rng = np.random.default_rng(width)
    codes = rng.integers(0, 256, (13, width), dtype=np.uint8)
    codes[:2] = 0
    codes[2] = 255
    queries = np.concatenate([codes[1:3], rng.integers(0, 256, (3, width), dtype=np.uint8)])
    distances, ids = nearest([Part(codes, np.arange(13))], queries, 13, 1)
    expected, expected_ids = slow_nearest(slow_distances(codes, queries), np.arange(13), 13)
    np.testing.assert_array_equal(distances, expected)
    np.testing.assert_array_equal(ids, expected_ids)


@pytest.mark.parametrize("width", [1, 7, 9, 33, 125, 256, 300, 1001])
@pytest.mark.parametrize("query_bits", [2, 4, 8])
def test_weighted_scan_equals_the_sum_of_weights(width, query_bits):
    rng = np.random.default_rng(width)
    n_bits, top = 8 * width - 3, 2 ** (query_bits - 1) - 1
    codes = rng.integers(0, 256, (21, width), dtype=np.uint8)
    integers = rng.integers(-top, top + 1, (3, n_bits)).astype(np.int8)
    bits = np.unpackbits(codes, axis=1, bitorder="little")[:, :n_bits].astype(int)
    differ = bits[None] != (integers > 0)[:, None]
    expected = (differ * np.abs(integers.astype(int))[:, None]).sum(axis=2)
    weighted = weigh(integers, np.ones(len(integers), np.float32), query_bits)
    distances, ids = nearest_weighted([Part(codes, np.arange(21))], weighted, 21, 1)
    best, best_ids = slow_nearest(expected, np.arange(21), 21)
    np.testing.assert_array_equal(distances, best)
    np.testing.assert_array_equal(ids, best_ids)
    rows = np.tile(np.arange(21)[::-1], (3, 1)).copy()
    np.testing.assert_array_equal(
        weighted_distances([Part(codes[:4], rows), Part(codes[4:], rows)], rows, weighted, 2), expected[:, ::-1]
    )


def test_extreme_weights_do_not_overflow():
    n_bits = 1 << 20
    codes = np.zeros((1, n_bits // 8), dtype=np.uint8)
    weighted = weigh(np.full((1, n_bits), 127, dtype=np.int8), np.ones(1, np.float32), 8)
    distances, _ = nearest_weighted([Part(codes, np.arange(1))], weighted, 1, 1)
    assert distances[0, 0] == 127 * n_bits


@pytest.mark.skipif(sys.platform != "linux", reason="guards a page of memory with Linux's mprotect")
def test_nothing_past_the_end_is_read():
    program = """
import ctypes, mmap
import numpy as np
from projbank.search.scan import Part, nearest, within
pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
memory = np.frombuffer(pages, dtype=np.uint8)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(memory.ctypes.data + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
for width in range(1, 600):
    rows = min(3, mmap.PAGESIZE // width)
    codes = memory[mmap.PAGESIZE - rows * width : mmap.PAGESIZE].reshape(rows, width)
    query = memory[mmap.PAGESIZE - width : mmap.PAGESIZE].reshape(1, width)
    part = Part(codes, np.arange(rows))
    assert nearest([part], query, rows, 1)[0].max() == 0
    assert len(within([part._replace(rows=part.ids)], query, 0, 1)[1]) == rows
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
