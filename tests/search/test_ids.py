"""Ids that are texts, and values kept beside codes."""

import numpy as np
import pytest

from projbank.search import HammingIndex


def random_codes(n, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


@pytest.fixture
def index():
    names = [f"picture {i}.jpg" for i in range(30)]
    return HammingIndex(random_codes(30, 2), ids=names, payload=[{"title": f"t{i}", "n": i} for i in range(30)])


def test_texts_come_back_where_numbers_would(index):
    codes = random_codes(30, 2)
    plain = HammingIndex(codes)
    distances, names = index.search(codes[:4], 9)
    expected, numbers = plain.search(codes[:4], 9)
    np.testing.assert_array_equal(distances, expected)
    assert names.tolist() == [[f"picture {i}.jpg" for i in row] for row in numbers.tolist()]
    assert index.ids.tolist() == [f"picture {i}.jpg" for i in range(30)]
    limits, _, names = index.range_search(codes[:4], 5)
    assert names.tolist() == [f"picture {i}.jpg" for i in plain.range_search(codes[:4], 5)[2].tolist()]
    assert len(names) == limits[-1]


def test_conditions_with_texts(index):
    codes = random_codes(30, 2)
    _, names = index.search(codes[:2], 4, allow=["picture 3.jpg", "nowhere", "picture 7.jpg", "picture 3.jpg"])
    assert [set(row) for row in names.tolist()] == [{"picture 3.jpg", "picture 7.jpg", None}] * 2
    assert index.search(codes[:1], 1, allow=np.arange(30) == 5)[1].tolist() == [["picture 5.jpg"]]
    np.testing.assert_array_equal(index.reconstruct(["picture 9.jpg", "picture 0.jpg"]), codes[[9, 0]])
    assert index.payload(["picture 9.jpg"]) == [{"title": "t9", "n": 9}]


def test_adding_and_removing_texts(index):
    new = random_codes(3, 2, 1)
    index.remove(["picture 1.jpg", "picture 29.jpg"]).add(new, ["a", "b", "picture 1.jpg"])
    assert (len(index), index.ids[-1], index.payload(["a", "picture 2.jpg"])) == (
        31,
        "picture 1.jpg",
        [None, {"title": "t2", "n": 2}],
    )
    np.testing.assert_array_equal(index.reconstruct(["picture 1.jpg", "a"]), new[[2, 0]])
    assert index.search(new[2:], 1)[0].tolist() == [[0]]
    index.remove(["a"]).add(new[:1], ["a"], payload=["again"])
    assert index.payload(["a", "b"]) == ["again", None]


def test_vectors_of_texts_stand_in_the_order_of_adding(index):
    vectors = np.random.default_rng(2).standard_normal((30, 5))
    _, names = index.search(random_codes(30, 2)[:3], 1, rerank=vectors, query_vectors=vectors[:3], shortlist=30)
    assert names[:, 0].tolist() == [f"picture {i}.jpg" for i in range(3)]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda i: i.add(random_codes(1, 2)), ValueError, "ids must be given"),
        (lambda i: i.add(random_codes(1, 2), [3]), TypeError, "ids must be texts"),
        (lambda i: i.add(random_codes(2, 2), ["a", "a"]), ValueError, "distinct. Got 'a'"),
        (lambda i: i.add(random_codes(2, 2), ["a", ""]), ValueError, "empty.*place 1"),
        (lambda i: i.add(random_codes(2, 2), ["a", 3]), TypeError, "all of them. Got int at place 1"),
        (lambda i: i.add(random_codes(1, 2), ["a", "b"]), ValueError, r"shape \(1,\)"),
        (lambda i: i.add(random_codes(1, 2), ["picture 4.jpg"]), ValueError, "must be new. Got picture 4.jpg"),
        (lambda i: i.add(random_codes(1, 2), ["a"], payload=[{1j}]), TypeError, "JSON"),
        (lambda i: i.add(random_codes(1, 2), ["a"], payload=[1, 2]), ValueError, "1 values.*Got 2"),
        (lambda i: i.remove(["picture 4.jpg", "b"]), ValueError, "Got b, which it does not hold; nothing was removed"),
        (lambda i: i.remove([4]), TypeError, "ids must be texts"),
        (lambda i: i.reconstruct(["b"]), ValueError, "Got b"),
    ],
)
def test_a_refused_change_leaves_texts_as_they_were(index, change, error, message):
    with pytest.raises(error, match=message):
        change(index)
    assert index.ids.tolist() == [f"picture {i}.jpg" for i in range(30)]


def test_numbers_stay_numbers():
    index = HammingIndex(random_codes(3, 2), payload=["x", None, [1, "y"]])
    with pytest.raises(TypeError, match="whole numbers, as those"):
        index.add(random_codes(1, 2), ["a"])
    index.add(random_codes(1, 2))
    assert index.payload([2, 0, 3]) == [[1, "y"], "x", None]


def test_an_empty_index_takes_either():
    for ids in (["a", "b"], np.array(["a", "b"]), np.array(["a", "b"], dtype=object)):
        assert HammingIndex(n_bits=16).add(random_codes(2, 2), ids).ids.tolist() == ["a", "b"]
    assert HammingIndex(n_bits=16).add(random_codes(2, 2), [4, 7]).ids.tolist() == [4, 7]
