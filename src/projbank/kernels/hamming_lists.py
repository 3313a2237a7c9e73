"""Scans of codes that lie word by word in groups of eight: each vector instruction works on one word of eight codes.

Word w of the eight codes of a group stands in one row of 64 bytes, so the distances of eight codes add up side by side
and nothing is summed across a vector. Words past the end of a code are 0.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from projbank.kernels.hamming import BYTE, WORD, _emit_prefetch, _hamming, _int64_at, _load, _replace_worst
from projbank.kernels.jit import kernel

EIGHT = ir.VectorType(WORD, 8)
ROWS_AT_A_TIME = 256
"""Codes of a list that are compared with all queries before the next ones: they stay in cache. A multiple of 8."""
WAITING = 32
"""Candidates whose next words are fetched at the same time."""


def _splat(builder, value):
    vector = builder.insert_element(ir.Constant(EIGHT, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
    return builder.shuffle_vector(vector, ir.Constant(EIGHT, ir.Undefined), zeros)


@intrinsic
def _eight_distances(typingctx, group, query, n_words, most, distances):
    """Store the distances of a group of eight codes; return the bits of those of at most `most`. All are addresses."""

    def codegen(context, builder, signature, args):
        group, query, n_words, most, distances = args
        count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(EIGHT, [EIGHT]), "llvm.ctpop.v8i64")
        total = cgutils.alloca_once(builder, EIGHT)
        builder.store(ir.Constant(EIGHT, [0] * 8), total)
        with cgutils.for_range(builder, n_words) as loop:
            codes = _load(builder, group, builder.shl(loop.index, WORD(6)), EIGHT)
            word = _load(builder, query, builder.shl(loop.index, WORD(3)), WORD)
            ones = builder.call(count, [builder.xor(codes, _splat(builder, word))])
            builder.store(builder.add(builder.load(total, typ=EIGHT), ones), total)
        sums = builder.load(total, typ=EIGHT)
        near = builder.icmp_signed("<=", sums, _splat(builder, most))
        builder.store(sums, builder.inttoptr(distances, EIGHT.as_pointer()), align=8)
        return builder.zext(builder.bitcast(near, BYTE), WORD)

    return types.intp(types.intp, types.intp, types.intp, types.intp, types.intp), codegen


@intrinsic
def _prefetch(typingctx, address):
    def codegen(context, builder, signature, args):
        _emit_prefetch(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.intp), codegen


@kernel("void(intp, intp, intp, intp, intp, intp, int32[:, ::1], int64[::1])")
def all_distances(groups, n_codes, n_words, queries, query_stride, n_queries, distances, eight):
    """Distance of each of `n_codes` codes that lie in groups to each query; distances[c, q]."""
    for first in range(0, n_codes, 8):
        for q in range(n_queries):
            _eight_distances(groups + first * n_words * 8, queries + q * query_stride, n_words, 0, eight.ctypes.data)
            for lane in range(min(8, n_codes - first)):
                distances[first + lane, q] = eight[lane]


@kernel("void(intp, intp, intp, intp, intp, intp, int32[::1], int64[::1])")
def nearest_code(groups, n_codes, n_words, queries, query_stride, n_queries, nearest, eight):
    """Place of the nearest of `n_codes` codes that lie in groups, for each query; the first of equals."""
    for q in range(n_queries):
        best = 1 << 40
        for first in range(0, n_codes, 8):
            near = _eight_distances(
                groups + first * n_words * 8, queries + q * query_stride, n_words, best - 1, eight.ctypes.data
            )
            if near != 0:
                for lane in range(min(8, n_codes - first)):
                    if eight[lane] < best:
                        best = eight[lane]
                        nearest[q] = first + lane


@njit(inline="always")
def _scan_list(
    group, n_words, first_row, n_rows, codes, row_stride, ids, query, stops, shares, slacks, distances, best, room
):
    """Offer the codes of one list to one heap; candidates wait in `room` while their next words are on the way."""
    n_stages = stops.size
    waiting = 0
    worst = distances[0]
    most = min(worst, int(worst * shares[0] + slacks[0]))
    for first in range(0, n_rows, 8):
        near = _eight_distances(group, query, n_words, most, room.ctypes.data)
        group += n_words * 64
        if near != 0:
            for lane in range(min(8, n_rows - first)):
                if room[lane] <= most:
                    row = first_row + first + lane
                    room[8 + 2 * waiting] = row
                    room[9 + 2 * waiting] = room[lane]
                    waiting += 1
                    if n_stages > 1:
                        _prefetch(codes + row * row_stride + stops[0])
        if waiting > WAITING - 8 or (waiting > 0 and first + 8 >= n_rows):
            for i in range(waiting):
                row = room[8 + 2 * i]
                distance = room[9 + 2 * i]
                for stage in range(1, n_stages):
                    if distance > min(worst, int(worst * shares[stage - 1] + slacks[stage - 1])):
                        distance = worst + 1
                        break
                    begin = stops[stage - 1]
                    distance += _hamming(codes + row * row_stride + begin, query + begin, 0, stops[stage] - begin)
                if distance <= worst:
                    ident = _int64_at(ids + 8 * row)
                    if ident >= 0 and (distance < worst or ident < best[0]):
                        _replace_worst(distances, best, distance, ident)
                        worst = distances[0]
            most = min(worst, int(worst * shares[0] + slacks[0]))
            waiting = 0


@kernel(
    "void(intp, int64[::1], int64[::1], intp, intp, intp, intp, intp, intp, int64[::1], float64[::1], float64[::1],"
    " int32[:, ::1], int32[:, ::1], int32[:, ::1], int64[:, ::1])"
)
def scan_lists(
    groups,
    group_starts,
    row_starts,
    n_words,
    codes,
    row_stride,
    ids,
    queries,
    query_stride,
    stops,
    shares,
    slacks,
    list_distances,
    limits,
    heap_distances,
    heap_ids,
):
    """Offer the codes of the near lists to the heap of every query.

    In turn t, from 1 on, query q visits the lists whose centres are more than limits[t - 1, q] and at most limits[t, q]
    away. All queries visit a list together, so that it stays in cache. Codes are compared in stages, of stops[0] bytes
    (those in the groups), up to stops[1], and so on: after stage s a code goes on only if its distance so far is at
    most ``shares[s] * worst + slacks[s]``, `worst` being the largest distance in the heap.

    Parameters
    ----------
    groups, n_words, group_starts, row_starts : address of the first words of all codes in groups of eight; how many
        words; where the groups of each list begin, and its rows
    codes, row_stride, ids : as in `hamming.scan`
    queries, query_stride : address of the queries, padded with zeros to whole words
    list_distances : (n_lists, n_queries), of the queries to the centres
    limits : (1 + n_turns, n_queries), ascending
    heap_distances, heap_ids : (n_queries, k) as in `hamming.scan`
    """
    n_lists, n_queries = list_distances.shape
    room = np.empty(8 + 2 * WAITING, np.int64)
    visitors = np.empty(n_queries, np.int64)
    for turn in range(1, limits.shape[0]):
        for part in range(n_lists):
            n_visitors = 0
            for q in range(n_queries):
                apart = list_distances[part, q]
                visitors[n_visitors] = q
                n_visitors += (limits[turn - 1, q] < apart) & (apart <= limits[turn, q])
            if n_visitors == 0:
                continue
            group = groups + group_starts[part] * n_words * 64
            for row in range(row_starts[part], row_starts[part + 1], ROWS_AT_A_TIME):
                n_rows = min(ROWS_AT_A_TIME, row_starts[part + 1] - row)
                for q in visitors[:n_visitors]:
                    _scan_list(
                        group, n_words, row, n_rows, codes, row_stride, ids, queries + q * query_stride, stops,
                        shares, slacks, heap_distances[q], heap_ids[q], room,
                    )  # fmt: skip
                group += ROWS_AT_A_TIME * n_words * 8


@kernel("void(uint8[:, ::1], intp, int32[::1], int32[:, ::1])")
def count_bits(codes, n_bits, labels, counts):
    """Add to counts[labels[i]] the bits of code i: how often each bit is 1 among the codes of each label."""
    for i in range(labels.size):
        own = counts[labels[i]]
        for byte in range((n_bits + 7) // 8):
            value = codes[i, byte]
            for bit in range(min(8, n_bits - 8 * byte)):
                own[8 * byte + bit] += (value >> bit) & 1
