"""Index files that grow: appended, read meanwhile, cut off anywhere, compacted; and several searched as one."""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

from projbank.integrity import IdentityError
from projbank.search import HammingIndex, IndexFileError, verify_index
from tests.search.reference import slow_search


def random_codes(n, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


def check_same(index, expected):
    """Two indexes answer everything alike."""
    assert (len(index), index.n_bits) == (len(expected), expected.n_bits)
    queries = random_codes(4, index.codes.shape[1], 99)
    for found, wanted in zip(index.search(queries, 30), expected.search(queries, 30), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert sorted(index.ids.tolist()) == sorted(expected.ids.tolist())
    np.testing.assert_array_equal(index.reconstruct(expected.ids), expected.codes)
    assert index.payload(expected.ids) == expected.payload(expected.ids)


def changes(named):
    """Steps that add and remove, the same for numbers and for texts."""

    def own(numbers):
        return [f"ü{i}" for i in numbers] if named else list(numbers)

    return [
        lambda i: i.add(random_codes(7, 3, 1), own(range(100, 107)), payload=[{"n": n} for n in range(7)]),
        lambda i: i.remove(own([3, 101, 102])),
        lambda i: i.add(random_codes(2, 3, 2), own([3, 500])).remove(own([500, 106])),
        lambda i: i.add(random_codes(40, 3, 3), own(range(1000, 1040))),
        lambda i: i.remove(own([0, 1003])).add(random_codes(1, 3, 4), own([0]), payload=["again"]),
    ]


def first(named):
    ids = [f"ü{i}" for i in range(20)] if named else None
    return HammingIndex(random_codes(20, 3), ids=ids, n_bits=23, payload=list(range(20)))


@pytest.mark.parametrize("named", [False, True])
def test_a_file_follows_its_index_step_by_step(tmp_path, named):
    path = tmp_path / "index.pbi"
    first(named).save(path)
    expected, growing = first(named), HammingIndex.load(path)
    for number, change in enumerate(changes(named)):
        before = path.stat().st_size
        change(expected)
        change(growing if number % 2 else (growing := HammingIndex.load(path)))
        growing.save()
        check_same(growing, expected)
        check_same(HammingIndex.load(path), expected)
        assert path.stat().st_size > before
        verify_index(path)
    size = path.stat().st_size
    growing.save()
    assert path.stat().st_size == size
    HammingIndex.load(path).save(path)  # whole: without what was removed
    assert path.stat().st_size < size
    compact = HammingIndex.load(path)
    check_same(compact, expected)
    check_same(
        compact.add(random_codes(1, 3, 9), ["new"] if named else None),
        expected.add(random_codes(1, 3, 9), ["new"] if named else None),
    )


@pytest.mark.parametrize("named", [False, True])
def test_a_killed_append_is_undone(tmp_path, named):
    """The file as it is after every possible number of written bytes, with the commit record still the old one."""
    path = tmp_path / "index.pbi"
    first(named).save(path)
    for change in changes(named)[:2]:
        index = HammingIndex.load(path)
        change(index).save()
        before, state = path.read_bytes(), HammingIndex.load(path)
        after = HammingIndex.load(path)
        changes(named)[3](after)
        after.save()
        whole = path.read_bytes()
        for size in {len(before), len(before) + 1, *np.linspace(len(before), len(whole), 25).astype(int).tolist()}:
            path.write_bytes(before + whole[len(before) : size])
            check_same(HammingIndex.load(path), state)
        check_same(changes(named)[3](HammingIndex.load(path)), after)
        half_slot = bytearray(whole)
        changed = [place for place in range(len(before)) if before[place] != whole[place]]
        for place in changed[: len(changed) // 2]:
            half_slot[place] = before[place]
        path.write_bytes(half_slot)
        check_same(HammingIndex.load(path), after)  # the block is whole
        again = HammingIndex.load(path).add(random_codes(2, 3, 5), ["x", "y"] if named else None)
        again.save()
        check_same(HammingIndex.load(path), again)
        path.write_bytes(before)


def test_every_changed_byte_of_the_commit_record_is_told_or_harmless(tmp_path):
    path = tmp_path / "index.pbi"
    index = first(True)
    index.save(path)
    for change in changes(True)[:3]:
        change(index).save()
        content, whole = path.read_bytes(), HammingIndex.load(path)
        for place in range(200):
            for bit in (1, 16, 64):
                path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
                try:
                    found = HammingIndex.load(path)
                except IndexFileError:
                    continue
                assert found.ids.tolist() == whole.ids.tolist(), place
        path.write_bytes(content)


KILLED = """
import os, sys
import numpy as np
from projbank.search import HammingIndex
import projbank.search.file as file
index = HammingIndex.load(sys.argv[1])
index.add(np.ones((1000, 3), np.uint8))
calls = 0
def fsync(handle, sync=os.fsync):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
    sync(handle)
os.fsync = fsync
index.save()
"""


@pytest.mark.parametrize(("moment", "grown"), [(1, False), (2, True)])
def test_a_killed_process(tmp_path, moment, grown):
    path = tmp_path / "index.pbi"
    first(False).save(path)
    done = subprocess.run([sys.executable, "-c", KILLED, path, str(moment)], check=False)
    assert done.returncode == -9
    index = HammingIndex.load(path)
    assert len(index) == (1020 if grown else 20)
    index.add(random_codes(5, 3, 7)).save()
    assert len(HammingIndex.load(path)) == len(index)
    verify_index(path)


def test_readers_keep_what_they_opened(tmp_path):
    path = tmp_path / "index.pbi"
    first(False).save(path)
    reader, writer = HammingIndex.load(path), HammingIndex.load(path)
    for seed in range(5):
        writer.add(random_codes(50, 3, seed)).remove([seed]).save()
        check_same(reader, first(False))
    writer.save(path)
    check_same(reader, first(False))
    check_same(HammingIndex.load(path), writer)


def _read(path, stop, sizes):
    while not stop.is_set():
        index = HammingIndex.load(path)
        codes = index.codes
        assert np.all(codes[20:] == (np.arange(20, len(index)) // 10 % 250)[:, None])
        assert index.search(codes[-1:], 1)[0].tolist() == [[0]]
        sizes.put(len(index))


def test_two_processes_read_while_one_appends(tmp_path):
    path = tmp_path / "index.pbi"
    first(False).save(path)
    context = multiprocessing.get_context("spawn")
    stop, sizes = context.Event(), context.Queue()
    readers = [context.Process(target=_read, args=(path, stop, sizes)) for _ in range(2)]
    for reader in readers:
        reader.start()
    seen = {sizes.get(timeout=60), sizes.get(timeout=60)}
    writer = HammingIndex.load(path)
    for number in range(20, 220, 10):
        writer.add(np.full((10, 3), number // 10 % 250, np.uint8)).save()
    while len(seen) < 2 or 220 not in seen:
        seen.add(sizes.get(timeout=60))
    stop.set()
    while any(reader.is_alive() for reader in readers):
        while not sizes.empty():
            sizes.get()
        readers[0].join(0.05)
    assert [reader.exitcode for reader in readers] == [0, 0]
    assert all(size % 10 == 0 and 20 <= size <= 220 for size in seen)


def test_two_writers_are_kept_apart(tmp_path):
    path = tmp_path / "index.pbi"
    first(False).save(path)
    one, other = HammingIndex.load(path), HammingIndex.load(path)
    one.add(random_codes(2, 3)).save()
    other.add(random_codes(2, 3, 1))
    with pytest.raises(IndexFileError, match="was changed since it was opened"):
        other.save()
    check_same(HammingIndex.load(path), one)
    fcntl = pytest.importorskip("fcntl")
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="another process is adding"):
            one.add(random_codes(2, 3)).save()
    one.save()
    check_same(HammingIndex.load(path), one)


def test_a_file_that_lost_its_end_is_told(tmp_path):
    path = tmp_path / "index.pbi"
    first(False).save(path)
    HammingIndex.load(path).add(random_codes(50, 3)).save()
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(IndexFileError, match="cut short"):
        HammingIndex.load(path)


def test_saving_where_there_is_no_file():
    with pytest.raises(ValueError, match="path must be given"):
        first(False).save()


@pytest.mark.parametrize("named", [False, True])
def test_shards_are_searched_as_one(tmp_path, named):
    codes, queries = random_codes(90, 3), random_codes(5, 3, 1)
    ids = np.random.default_rng(2).permutation(500)[:90]
    paths = []
    for number, start in enumerate(range(0, 90, 30)):
        paths.append(tmp_path / f"{number}.pbi")
        own = ids[start : start + 30]
        shard = HammingIndex(codes[start : start + 20], ids=[f"x{i}" for i in own[:20]] if named else own[:20])
        shard.save(paths[-1])
        shard.add(codes[start + 20 : start + 30], [f"x{i}" for i in own[20:]] if named else own[20:]).save()
    together = HammingIndex.load(paths)
    if named:
        expected = HammingIndex(codes, ids=[f"x{i}" for i in ids])
        assert together.search(queries, 40)[1].tolist() == expected.search(queries, 40)[1].tolist()
    else:
        for found, wanted in zip(together.search(queries, 40), slow_search(codes, queries, 40, ids, 24), strict=True):
            np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(together.reconstruct(together.ids), codes)
    gone = together.ids[[0, 45]]
    together.remove(gone).save(tmp_path / "all.pbi")
    assert len(HammingIndex.load(tmp_path / "all.pbi")) == 88
    with pytest.raises(ValueError, match="path must be given"):
        HammingIndex.load(paths).save()


def test_shards_that_do_not_fit(tmp_path):
    one, other = tmp_path / "one.pbi", tmp_path / "other.pbi"
    HammingIndex(random_codes(4, 2), made_by="Bank:1").save(one)
    for content, message in [
        (HammingIndex(random_codes(4, 3)), "codes have 24 bits"),
        (HammingIndex(random_codes(4, 2), ids=[9, 2, 8, 7], made_by="Bank:1"), "Got 2, which the index already holds"),
        (HammingIndex(random_codes(4, 2), ids=list("abcd"), made_by="Bank:1"), "unlike those of the other files"),
    ]:
        content.save(other)
        with pytest.raises(IndexFileError, match=message):
            HammingIndex.load([one, other])
    HammingIndex(random_codes(4, 2), ids=[6, 7, 8, 9], made_by="Bank:2").save(other)
    with pytest.raises(IdentityError, match="Bank:2"):
        HammingIndex.load([one, other])
    with pytest.raises(ValueError, match="at least one"):
        HammingIndex.load([])


def test_what_made_the_codes_is_kept(tmp_path):
    path = tmp_path / "index.pbi"
    HammingIndex(random_codes(4, 2), made_by="ProjectionBank:0123").save(path)
    index = HammingIndex.load(path)
    index.add(random_codes(1, 2)).save()
    assert HammingIndex.load(path).made_by == "ProjectionBank:0123"
    index.save(path)
    assert HammingIndex.load(path).made_by == "ProjectionBank:0123"
