"""Exact top-k scans over packed codes: Hamming distance, and its weighted form for real-valued queries.

The inner loop counts ones with vector instructions emitted as LLVM IR, for codes of any length and any alignment. Both
scans live in one file because Numba's disk cache only watches the file of the kernel itself. Arrays are passed as
addresses, so that read-only and memory-mapped codes need no copy.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from projbank.kernels.jit import kernel

BYTE, SHORT, WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(WORD, 4)
PREFETCH_BYTES = 2048
"""How far ahead of the code at hand a single query asks for memory."""


def _load(builder, address, offset, kind):
    pointer = builder.inttoptr(builder.add(address, offset), kind.as_pointer())
    return builder.load(pointer, align=1, typ=kind)


def _ones(builder, vector):
    """Ones in each of the 4 words of a vector."""
    count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(VECTOR, [VECTOR]), "llvm.ctpop.v4i64")
    return builder.call(count, [vector])


def _carry_save(builder, a, b, c):
    """Add three bits in each position: (carry, sum)."""
    half = builder.xor(a, b)
    return builder.or_(builder.and_(a, b), builder.and_(half, c)), builder.xor(half, c)


def _emit_count(builder, n_bytes, piece, fetch):
    """Emit the number of ones in `n_bytes` bytes; nothing past their end is read.

    Blocks of 256 bytes pass a tree of carry-save adders (Harley and Seal), which leaves one vector in eight to be
    counted; then come whole vectors, whole words, and a last word that overlaps what was counted before.
    """
    zero = ir.Constant(VECTOR, [0] * 4)

    def times(vector, log2):
        return builder.shl(vector, ir.Constant(VECTOR, [log2] * 4))

    total = cgutils.alloca_once_value(builder, zero)
    builder.store(zero, total)
    n_blocks = builder.lshr(n_bytes, WORD(8))
    with builder.if_then(builder.icmp_unsigned("!=", n_blocks, WORD(0)), likely=True):
        levels = [cgutils.alloca_once(builder, VECTOR) for _ in range(4)]
        for level in levels:
            builder.store(zero, level)
        with cgutils.for_range(builder, n_blocks) as loop:
            base = builder.shl(loop.index, WORD(8))
            for line in range(0, 256, 64):
                fetch(builder.add(base, WORD(line)))
            one, two, four, eights = (builder.load(level, typ=VECTOR) for level in levels)
            carries = []
            for half in (0, 4):
                v = [piece(builder.add(base, WORD(32 * (half + i))), VECTOR) for i in range(4)]
                low, one = _carry_save(builder, one, v[0], v[1])
                high, one = _carry_save(builder, one, v[2], v[3])
                carry, two = _carry_save(builder, two, low, high)
                carries.append(carry)
            eight, four = _carry_save(builder, four, *carries)
            eights = builder.add(eights, _ones(builder, eight))
            for level, value in zip(levels, (one, two, four, eights), strict=True):
                builder.store(value, level)
        one, two, four, eights = (builder.load(level, typ=VECTOR) for level in levels)
        singles = builder.add(_ones(builder, one), times(_ones(builder, two), 1))
        multiples = builder.add(times(_ones(builder, four), 2), times(eights, 3))
        builder.store(builder.add(singles, multiples), total)

    start = builder.and_(n_bytes, WORD(~255))
    n_vectors = builder.lshr(builder.and_(n_bytes, WORD(255)), WORD(5))
    with cgutils.for_range(builder, n_vectors) as loop:
        offset = builder.add(start, builder.shl(loop.index, WORD(5)))
        fetch(offset)
        vector = piece(offset, VECTOR)
        builder.store(builder.add(builder.load(total, typ=VECTOR), _ones(builder, vector)), total)
    reduce = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(WORD, [VECTOR]), "llvm.vector.reduce.add.v4i64"
    )
    count = cgutils.alloca_once(builder, WORD)
    builder.store(builder.call(reduce, [builder.load(total, typ=VECTOR)]), count)
    _emit_tail(builder, n_bytes, piece, count)
    return builder.load(count, typ=WORD)


def _emit_tail(builder, n_bytes, piece, count):
    """Add the ones of the last n_bytes % 32 bytes to `count`."""

    def add(ones):
        builder.store(builder.add(builder.load(count, typ=WORD), ones), count)

    start = builder.and_(n_bytes, WORD(~31))
    n_words = builder.lshr(builder.and_(n_bytes, WORD(31)), WORD(3))
    with cgutils.for_range(builder, n_words) as loop:
        add(builder.ctpop(piece(builder.add(start, builder.shl(loop.index, WORD(3))), WORD)))
    spare = builder.and_(n_bytes, WORD(7))
    has_spare = builder.icmp_unsigned("!=", spare, WORD(0))
    has_word = builder.icmp_unsigned(">=", n_bytes, WORD(8))
    with builder.if_then(builder.and_(has_spare, has_word)):
        word = piece(builder.sub(n_bytes, WORD(8)), WORD)
        counted_bits = builder.shl(builder.sub(WORD(8), spare), WORD(3))
        add(builder.ctpop(builder.lshr(word, counted_bits)))
    with builder.if_then(builder.not_(has_word)), cgutils.for_range(builder, n_bytes) as loop:
        add(builder.zext(builder.ctpop(piece(loop.index, BYTE)), WORD))


def _emit_prefetch(builder, address):
    """Ask for the cache line at `address`, which may lie past the end of the array."""
    pointer = BYTE.as_pointer()
    call = ir.FunctionType(ir.VoidType(), [pointer, SHORT, SHORT, SHORT])
    prefetch = cgutils.get_or_insert_function(builder.module, call, "llvm.prefetch.p0")
    builder.call(prefetch, [builder.inttoptr(address, pointer), SHORT(0), SHORT(3), SHORT(1)])


def _make_distance(*, masked: bool, streaming: bool) -> Any:
    """Make the intrinsic that counts the ones of (code ^ query) & mask; `streaming` asks for later codes meanwhile."""

    @intrinsic
    def distance(typingctx, code, query, mask, n_bytes):
        def codegen(context, builder, signature, args):
            code, query, mask, n_bytes = args

            def piece(offset, kind):
                bits = builder.xor(_load(builder, code, offset, kind), _load(builder, query, offset, kind))
                return builder.and_(bits, _load(builder, mask, offset, kind)) if masked else bits

            def fetch(offset):
                if streaming:
                    _emit_prefetch(builder, builder.add(code, builder.add(offset, WORD(PREFETCH_BYTES))))

            return _emit_count(builder, n_bytes, piece, fetch)

        return types.intp(types.intp, types.intp, types.intp, types.intp), codegen

    return distance


_hamming = _make_distance(masked=False, streaming=False)
_hamming_streaming = _make_distance(masked=False, streaming=True)
_masked_hamming = _make_distance(masked=True, streaming=False)


@intrinsic
def _int64_at(typingctx, address):
    def codegen(context, builder, signature, args):
        return _load(builder, args[0], WORD(0), WORD)

    return types.int64(types.intp), codegen


@njit(inline="always")
def _weighted(code, query, planes, n_planes, n_bytes):
    """Sum of the weights of the bits in which code and query differ; plane j holds bit j of the weights."""
    total = 0
    for plane in range(n_planes):
        total += _masked_hamming(code, query, planes + plane * n_bytes, n_bytes) << plane
    return total


@njit(inline="always")
def _replace_worst(distances, ids, distance, ident):
    """Replace the root of a heap whose root is the largest (distance, id)."""
    size = distances.size
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            distances[right] > distances[child] or (distances[right] == distances[child] and ids[right] > ids[child])
        ):
            child = right
        if distances[child] > distance or (distances[child] == distance and ids[child] > ident):
            distances[place] = distances[child]
            ids[place] = ids[child]
            place = child
        else:
            break
    distances[place] = distance
    ids[place] = ident


@kernel("void(intp, intp, intp, intp, intp, intp, intp, intp, intp, intp, int32[:, ::1], int64[:, ::1])")
def scan(
    codes, row_stride, ids, rows, n_rows, queries, planes, n_planes, n_bytes, rows_per_block, heap_distances, heap_ids
):
    """Offer every row to the heap of every query; rows are visited in blocks that stay in cache for all queries.

    Parameters
    ----------
    codes, row_stride : address of the codes, bytes from row to row
    ids : address of one int64 per row; a row with a negative id does not count
    rows, n_rows : address of the int64 numbers of the rows to visit, 0 for rows 0, 1, 2 ...; how many there are
    queries : address of (n_queries, n_bytes) packed bits
    planes, n_planes : address of (n_queries, n_planes, n_bytes) packed bits of the weights; n_planes 0 is plain Hamming
    heap_distances, heap_ids : (n_queries, k), the k smallest (distance, id) so far, the largest of them first
    """
    n_queries = heap_distances.shape[0]
    for start in range(0, n_rows, rows_per_block):
        stop = min(start + rows_per_block, n_rows)
        for q in range(n_queries):
            distances = heap_distances[q]
            best = heap_ids[q]
            query = queries + q * n_bytes
            weights = planes + q * n_planes * n_bytes
            worst = distances[0]
            for place in range(start, stop):
                row = place if rows == 0 else _int64_at(rows + 8 * place)
                code = codes + row * row_stride
                if n_planes > 0:
                    distance = _weighted(code, query, weights, n_planes, n_bytes)
                elif q == 0 and rows == 0:
                    distance = _hamming_streaming(code, query, 0, n_bytes)
                else:
                    distance = _hamming(code, query, 0, n_bytes)
                if distance <= worst:
                    ident = _int64_at(ids + 8 * row)
                    if ident >= 0 and (distance < worst or ident < best[0]):
                        _replace_worst(distances, best, distance, ident)
                        worst = distances[0]


@kernel("int64(intp, intp, intp, intp, intp, intp, intp, intp, int64, int64[::1], int32[::1], int64[::1])")
def scan_within(
    codes, row_stride, ids, rows, n_rows, queries, n_queries, n_bytes, most, found_queries, found_distances, found_ids
):
    """List every (query, distance, id) of at most `most`, as far as there is room; the number of them comes back.

    `codes` to `n_bytes` are as in `scan`; `n_rows` are few enough to stay in cache for all queries.
    """
    room = found_ids.size
    n_found = 0
    for q in range(n_queries):
        query = queries + q * n_bytes
        for place in range(n_rows):
            row = place if rows == 0 else _int64_at(rows + 8 * place)
            distance = _hamming(codes + row * row_stride, query, 0, n_bytes)
            if distance <= most:
                ident = _int64_at(ids + 8 * row)
                if ident >= 0:
                    if n_found < room:
                        found_queries[n_found] = q
                        found_distances[n_found] = distance
                        found_ids[n_found] = ident
                    n_found += 1
    return n_found


@kernel("void(intp, intp, int64[::1], intp, intp, intp, intp, int32[::1])")
def weighted_distances(codes, row_stride, rows, query, planes, n_planes, n_bytes, distances):
    """Weighted distance of one query to the given rows."""
    for i in range(rows.size):
        distances[i] = _weighted(codes + rows[i] * row_stride, query, planes, n_planes, n_bytes)
