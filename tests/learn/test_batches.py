import numpy as np
import pytest
import scipy.sparse as sp

from projbank.learn import descent
from projbank.learn.descent import NeighborBatches
from projbank.learn.neighbors import nearest_neighbors
from projbank.learn.target import graded_walk
from projbank.rows.source import as_rows


def make_walk(rng, n, k):
    return graded_walk(nearest_neighbors(as_rows(rng.standard_normal((n, 5))), k))


@pytest.mark.parametrize(("n", "size"), [(300, 64), (300, 7), (300, 3), (41, 40), (2, 1)])
def test_batches_are_ascending_free_vectors_of_the_size_that_was_asked_for(n, size):
    rng = np.random.default_rng(size)
    free = np.sort(rng.choice(n, max(size, n - n // 5), replace=False))
    draws = NeighborBatches(make_walk(rng, n, min(10, n - 1)), free, rng)
    for _ in range(20):
        ids = draws.draw(size)
        assert len(ids) == size
        assert (np.diff(ids) > 0).all()
        assert np.isin(ids, free).all()


def test_all_vectors_are_drawn_where_the_batch_has_room_for_them():
    rng = np.random.default_rng(0)
    free = np.arange(5, 60)
    np.testing.assert_array_equal(NeighborBatches(make_walk(rng, 60, 8), free, rng).draw(55), free)


def test_vectors_meet_more_of_their_neighbours_than_at_random():
    rng = np.random.default_rng(1)
    walk, free = make_walk(rng, 2000, 20), np.arange(2000)
    linked = sp.csr_array(walk > 0, dtype=np.int64)

    def edges(ids):
        return linked[ids][:, ids].sum() - len(ids)

    draws = NeighborBatches(walk, free, rng)
    rich = np.mean([edges(draws.draw(100)) for _ in range(30)])
    plain = np.mean([edges(rng.choice(free, 100, replace=False)) for _ in range(30)])
    assert rich > plain + 75  # 75 edges are followed, and count at both of their ends; some would be there anyway


def test_edges_are_followed_by_their_weight_and_never_to_held_back_vectors(monkeypatch):
    monkeypatch.setattr(descent, "BATCH_NEIGHBORS", 1)
    weights = np.zeros((6, 6), np.float32)
    weights[0, 1:5] = [1, 2, 5, 100]  # 4 is held back
    walk = sp.csr_array(weights + weights.T + np.eye(6, dtype=np.float32))
    draws = NeighborBatches(walk, np.array([0, 1, 2, 3, 5]), np.random.default_rng(2))
    counts = np.bincount(np.concatenate([draws._neighbors(np.array([0])) for _ in range(4000)]), minlength=6)
    np.testing.assert_allclose(counts / 4000, [0, 1 / 8, 2 / 8, 5 / 8, 0, 0], atol=0.03)
    assert len(draws._neighbors(np.array([5]))) == 0  # no neighbours but itself
