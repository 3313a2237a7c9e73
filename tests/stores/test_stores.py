"""What holds for every store: a flat search equals HammingIndex, id by id."""

import numpy as np
import pytest

from projbank.search import HammingIndex


def random_codes(n, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


def check_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


@pytest.mark.parametrize(("n", "n_bits", "k"), [(1, 8, 1), (300, 7, 40), (500, 200, 25), (60, 9001, 60)])
def test_flat_search_equals_hamming_index(open_store, n, n_bits, k):
    width = (n_bits + 7) // 8
    codes, queries = random_codes(n, width), random_codes(6, width, 1)  # with stray bits past n_bits
    ids = np.random.default_rng(2).permutation(10 * n)[:n]
    index = HammingIndex(codes, ids=ids, n_bits=n_bits)
    with open_store() as store:
        store.create(n_bits).add(codes, ids, batch_rows=128)
        assert (store.count(), store.n_bits) == (n, n_bits)
        check_same(store.search(queries, k), index.search(queries, k))


def test_all_ties_go_to_the_smallest_ids(open_store):
    with open_store() as store:
        ids = np.random.default_rng(0).permutation(500)
        store.create(16).add(np.zeros((500, 2), np.uint8), ids)
        distances, found = store.search(np.ones((2, 2), np.uint8), 5)
        assert distances.tolist() == [[2] * 5] * 2
        assert found.tolist() == [[0, 1, 2, 3, 4]] * 2


def test_a_store_is_still_there_when_opened_again(open_store):
    codes = random_codes(50, 3)
    with open_store() as store:
        store.create(21).add(codes)
    with open_store() as store:
        assert (store.n_bits, store.count()) == (21, 50)
        store.add(codes)
        index = HammingIndex(np.concatenate([codes, codes]), n_bits=21)
        check_same(store.search(codes[:4], 10), index.search(codes[:4], 10))


def test_default_ids_continue_after_the_largest(open_store):
    codes = random_codes(3, 1)
    with open_store() as store:
        store.create(8).add(codes, [7, 1, 4]).add(codes[:2])
        assert sorted(store.search(codes[:1], 10)[1][0].tolist()) == [1, 4, 7, 8, 9]


def test_k_beyond_the_store_no_queries_and_no_codes(open_store):
    with open_store() as store:
        store.create(12)
        assert store.search(np.zeros((2, 2), np.uint8), 3)[1].shape == (2, 0)
        store.add(np.zeros((0, 2), np.uint8))
        assert store.count() == 0
        store.add(random_codes(4, 2))
        assert store.search(np.zeros((2, 2), np.uint8), 30)[1].shape == (2, 4)
        assert store.search(np.zeros((0, 2), np.uint8), 3)[0].shape == (0, 3)


def test_create_again(open_store):
    with open_store() as store:
        store.create(16).add(random_codes(3, 2))
    with open_store() as store:
        assert store.create(16).count() == 3
        with pytest.raises(ValueError, match=r"holds codes of 16 bits\. Got n_bits=17"):
            store.create(17)
        assert store.count() == 3


def test_drop(open_store):
    with open_store() as store:
        store.create(16).add(random_codes(3, 2))
        store.drop()
        store.drop()
        with pytest.raises(FileNotFoundError, match="create it first"):
            store.search(random_codes(1, 2))
        assert store.create(24).count() == 0


@pytest.mark.parametrize(
    ("codes", "ids", "error", "message"),
    [
        (np.zeros((2, 3), np.uint8), None, ValueError, "2 bytes per code.*Got 3 bytes"),
        (np.zeros((2, 2)), None, TypeError, "uint8"),
        (np.zeros((2, 2), np.uint8), [1], ValueError, r"shape \(2,\)"),
        (np.zeros((2, 2), np.uint8), [9, 9], ValueError, "distinct. Got 9"),
        (np.zeros((2, 2), np.uint8), [90, 1], ValueError, "must be new. Got 1"),
        (np.zeros((2, 2), np.uint8), [-5, 90], ValueError, "range"),
    ],
)
def test_a_refused_add_adds_nothing(open_store, codes, ids, error, message):
    with open_store() as store:
        store.create(16).add(random_codes(3, 2))
        with pytest.raises(error, match=message):
            store.add(codes, ids, batch_rows=1)
        assert store.count() == 3


def test_bad_searches(open_store):
    with open_store() as store:
        store.create(16).add(random_codes(3, 2))
        with pytest.raises(ValueError, match="queries must have 2 bytes"):
            store.search(random_codes(1, 3))
        with pytest.raises(ValueError, match="'k' parameter"):
            store.search(random_codes(1, 2), 0)
        with pytest.raises(TypeError, match="queries must be packed bits"):
            store.search(np.zeros((1, 16)))


@pytest.mark.parametrize("index", [None, "ivf", "hnsw"])
@pytest.mark.parametrize("named", [False, True])
def test_a_filter_is_exact_with_and_without_an_index(open_store, named, index):
    codes, queries = random_codes(300, 4), random_codes(5, 4, 1)
    ids = np.random.default_rng(2).permutation(2000)[:300]
    names = [f"picture '{i}'.jpg" for i in ids] if named else ids
    expected = HammingIndex(codes, ids=names)
    with open_store() as store:
        store.create(32).add(codes, names, batch_rows=100)
        if index in store.index_kinds:
            store.build_index(index)
        for count in (0, 1, 7, 250):
            allow = [*names[:count], names[0] if count else "nowhere" if named else 5000]
            found, wanted = store.search(queries, 12, allow=allow), expected.search(queries, 12, allow=allow)
            assert found[1].tolist() == wanted[1].tolist()
            assert found[0].tolist() == wanted[0].tolist()


def test_texts_and_payload_are_kept(open_store):
    codes = random_codes(40, 3)
    names = [f"ü{i}\t'\"\\') OR 1=1; DROP TABLE codes; --" for i in range(40)]
    payload = [{"title": f"'); DROP TABLE codes; -- {i}", "n": [i, None]} for i in range(40)]
    with open_store() as store:
        store.create(24).add(codes[:30], names[:30], payload[:30], batch_rows=8)
    with open_store() as store:
        store.add(codes[30:], names[30:], payload[30:])
        expected = HammingIndex(codes, ids=names)
        found, wanted = store.search(codes[:3], 10), expected.search(codes[:3], 10)
        assert (found[0].tolist(), found[1].tolist()) == (wanted[0].tolist(), wanted[1].tolist())
        assert store.payload([names[35], names[2]]) == [payload[35], payload[2]]
        for change, error, message in [
            (lambda: store.add(codes[:1], [7]), TypeError, "ids must be texts"),
            (lambda: store.add(codes[:1]), ValueError, "ids must be given"),
            (lambda: store.add(codes[:2], ["new", names[3]]), ValueError, "must be new"),
            (lambda: store.payload(["nowhere"]), ValueError, "Got nowhere"),
            (lambda: store.search(codes[:1], allow=[7]), TypeError, "list of ids of the store"),
        ]:
            with pytest.raises(error, match=message):
                change()
        assert store.count() == 40


def test_numbers_with_payload(open_store):
    codes = random_codes(5, 3)
    with open_store() as store:
        store.create(24).add(codes, payload=list("abcde")).add(codes[:1])
        assert store.payload([4, 0, 5]) == ["e", "a", None]
        with pytest.raises(TypeError, match="whole numbers, as those"):
            store.add(codes[:1], ["a"])


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_an_index_finds_near_copies(open_store, kind):
    """Codes in tight clusters far apart: any sound index finds a code's own cluster."""
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 256, (40, 32), dtype=np.uint8)
    codes = np.repeat(centres, 25, axis=0) ^ (1 << rng.integers(0, 8, (1000, 32))).astype(np.uint8)
    with open_store() as store:
        store.create(256).add(codes)
        if kind not in store.index_kinds:
            with pytest.raises(ValueError, match="'kind' parameter"):
                store.build_index(kind)
            return
        store.build_index(kind)
        with pytest.raises(ValueError, match=f"already has an index of kind '{kind}'"):
            store.build_index(kind)
    with open_store() as store:
        distances, ids = store.search(codes[::25], 10)
        np.testing.assert_array_equal(ids[:, 0], np.arange(0, 1000, 25))
        assert np.mean(ids // 25 == np.arange(40)[:, None]) > 0.95
        assert np.all(np.diff(distances, axis=1) >= 0)
        exact = HammingIndex(codes)
        full = exact.search(codes[:30], 10)[0]
        most = store.search(codes[:30], 10, effort=1000)[0]
        assert np.mean(most == full) > 0.95
        new = rng.integers(0, 256, (5, 32), dtype=np.uint8)
        store.add(new)
        assert store.count() == 1005
        np.testing.assert_array_equal(store.search(new, 1, effort=1000)[1][:, 0], np.arange(1000, 1005))
        with pytest.raises(ValueError, match=r"must be new\. Got 3"):
            store.add(new[:1], [3])


def test_ivf_lists(open_store):
    with open_store() as store:
        store.create(64)
        if "ivf" in store.index_kinds:
            with pytest.raises(ValueError, match="add some first"):
                store.build_index("ivf")
        codes = random_codes(400, 8)
        store.add(codes)
        if "ivf" not in store.index_kinds:
            return
        with pytest.raises(ValueError, match="'n_lists' parameter"):
            store.build_index("ivf", n_lists=401)
        store.build_index("ivf", n_lists=4)
        check_same(store.search(codes[:3], 1, effort=4)[1:], (np.arange(3)[:, None],))
