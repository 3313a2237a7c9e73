import numpy as np
import pytest

from projbank import KernelProjectionBank, ProjectionBank
from projbank.bits import unpack
from projbank.kernels.nearest import score_candidates
from projbank.learn import descent, target
from projbank.learn import learnt_groups as groups
from projbank.learn.grouping import fill_places, fill_rest
from projbank.learn.learnt_groups import choose_groups, learn_groups
from projbank.learn.neighbors import nearest_neighbors
from projbank.learn.target import SimilarityTarget
from projbank.methods.banks import JointBank
from projbank.rows.source import as_rows
from tests.learn.test_joint import clustered


def learnt(X, n_bits=12, n_assign=1, seed=0, n_threads=1, ids=None):
    rows = as_rows(X)
    wanted = SimilarityTarget(rows, rows.statistics().means, 10)
    ids = np.arange(len(X)) if ids is None else ids
    return learn_groups(rows, ids, wanted, n_bits=n_bits, n_assign=n_assign, seed=seed, n_threads=n_threads)


def literal_choice(candidates, scores, room):
    """Each column asks candidate after candidate; in every turn a group takes the best of those who ask."""
    n = candidates.shape[1]
    labels, room = np.full(n, -1), room.copy()
    order = [sorted(range(len(candidates)), key=lambda c, j=j: (-scores[c, j], c)) for j in range(n)]
    for turn in range(len(candidates)):
        for group in range(len(room)):
            asking = [j for j in range(n) if labels[j] < 0 and candidates[order[j][turn], j] == group]
            asking.sort(key=lambda j: (-scores[order[j][turn], j], j))
            for j in asking[: room[group]]:
                labels[j] = group
            room[group] -= min(len(asking), room[group])
    return labels


@pytest.mark.parametrize("seed", range(4))
def test_filling_agrees_with_the_literal_choice(seed):
    rng = np.random.default_rng(seed)
    candidates = rng.integers(0, 7, (40, 3)).astype(np.int32)
    scores = rng.random((40, 3)).astype(np.float32)
    room = np.bincount(np.arange(40) % 7)
    expected = literal_choice(candidates.T, scores.T, room)
    filled = fill_places(candidates, scores, room)
    settled = expected >= 0
    np.testing.assert_array_equal(filled, expected)
    result = fill_rest(filled, room, rng)
    assert 0 < settled.sum() < 40 or settled.all()
    np.testing.assert_array_equal(result[settled], expected[settled])
    np.testing.assert_array_equal(np.bincount(result), room)


@pytest.mark.parametrize(
    ("n_bits", "n_features", "n_assign"), [(7, 61, 1), (64, 64, 1), (5, 40, 3), (300, 1000, 1), (1, 9, 1)]
)
def test_groups_are_equally_large_and_those_of_a_dimension_differ(n_bits, n_features, n_assign):
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((n_bits, 4)).astype(np.float32)
    loadings = rng.standard_normal((4, n_features)).astype(np.float32)
    labels, signs = choose_groups(directions, loadings, n_assign, rng)
    assert labels.shape == signs.shape == (n_assign, n_features)
    sizes = np.bincount(labels.ravel(), minlength=n_bits)
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= (1 if n_assign == 1 else 4)
    assert all(len(set(column)) == n_assign for column in labels.T)
    expected = np.einsum("rjc,cj->rj", directions[labels], loadings)
    np.testing.assert_array_equal(signs, np.where(expected < 0, -1, 1))


def test_dimensions_join_bits_that_they_correlate_with_more_than_by_chance():
    rng = np.random.default_rng(2)
    directions = rng.standard_normal((50, 8)).astype(np.float32)
    loadings = rng.standard_normal((8, 1000)).astype(np.float32)
    labels, _ = choose_groups(directions, loadings, 1, rng)
    scores = np.abs(directions @ loadings)
    chosen = scores[labels[0], np.arange(1000)].mean()
    assert chosen > 1.5 * scores.mean()


def test_the_embedding_is_the_target_s_leading_space_smoothed_by_ridge_regression():
    X = clustered(np.random.default_rng(3), 150, 80)
    means = as_rows(X).statistics().means
    similar = SimilarityTarget(as_rows(X), means, 10)
    ids = np.arange(len(X))
    wanted, cosines = similar.of(ids, None), similar.cosines(ids, None)
    hidden = groups._embed(wanted, cosines, np.random.default_rng(0), 1)
    values, vectors = np.linalg.eigh(wanted.astype(float))
    leading = vectors[:, ::-1][:, :3] * np.sqrt(150 * values[::-1][:3])
    expected = cosines @ np.linalg.solve(cosines + np.trace(cosines) / 150 * np.eye(150), leading)
    for c in range(3):
        assert abs(np.corrcoef(hidden[:, c], expected[:, c])[0, 1]) > 0.999
        assert np.std(hidden[:, c]) == pytest.approx(np.std(expected[:, c]), rel=0.01)


@pytest.mark.parametrize("n_assign", [1, 3])
def test_the_groups_do_not_depend_on_threads_and_come_from_the_given_vectors_only(n_assign):
    X = clustered(np.random.default_rng(4), 200, 130)
    expected, signs = learnt(X, n_assign=n_assign)
    for n_threads in (2, 3):
        labels, same = learnt(X, n_assign=n_assign, n_threads=n_threads)
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(same, signs)
    assert (learnt(X, n_assign=n_assign, seed=1)[0] != expected).any()


def test_held_back_vectors_do_not_shape_the_groups(monkeypatch):
    X = clustered(np.random.default_rng(5), 400, 60)
    seen = []
    monkeypatch.setattr(
        "projbank.learn.joint.learn_groups", lambda *args, **kw: seen.append(args[1]) or learn_groups(*args, **kw)
    )
    JointBank(8, n_neighbors=10, max_iter=1, random_state=3).fit(X)
    held, free = descent.hold_back(400, JointBank(random_state=3).seed())
    np.testing.assert_array_equal(seen[0], free)
    assert len(held)


def test_a_target_that_is_not_kept_and_a_sample_give_groups_too(monkeypatch):
    X = clustered(np.random.default_rng(6), 300, 90)
    monkeypatch.setattr(target, "KEPT", 10)
    monkeypatch.setattr(groups, "SAMPLE_BYTES", 4 * 90 * 100)
    labels, _ = learnt(X, n_bits=9)
    np.testing.assert_array_equal(np.bincount(labels[0]), [10] * 9)


@pytest.mark.parametrize("seed", range(3))
def test_unseen_vectors_are_found_better_with_learnt_groups_than_with_random_ones(seed):
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, 30, 1500)
    hidden = rng.standard_normal((30, 12))[clusters] + 0.3 * rng.standard_normal((1500, 12))
    X = hidden[:, rng.integers(0, 12, 2000)] + 4 * rng.standard_normal(
        (1500, 2000)
    )  # a dimension reads one of 12, badly
    X = X.astype(np.float32)
    precision = {}
    for grouping in ("learnt", "random"):
        bank = JointBank(64, n_neighbors=30, grouping=grouping, random_state=seed).fit(X[:900])
        bits = unpack(bank.transform(X[900:]), 64).astype(np.float32)
        precision[grouping] = np.mean(clusters[900:][nearest_neighbors(as_rows(bits), 10)] == clusters[900:, None])
    assert precision["learnt"] > precision["random"] + 0.05, precision


def test_constant_dimensions_and_equal_vectors_give_no_nan():
    X = clustered(np.random.default_rng(8), 120, 40)
    X[:, ::3] = 2
    for rows in (X, np.ones_like(X), np.zeros_like(X)):
        bank = JointBank(6, grouping="learnt", n_neighbors=5, max_iter=2).fit(rows)
        assert np.isfinite(bank.weights_).all()
        assert np.bincount(bank.labels_).min() >= 6


def test_learnt_groups_need_the_joint_solver():
    X = clustered(np.random.default_rng(9), 80, 40)
    for bank in (
        ProjectionBank(4, solver="paper", grouping="learnt"),
        ProjectionBank(4, solver="random", grouping="soft-learnt"),
        KernelProjectionBank(4, grouping="learnt"),
    ):
        with pytest.raises(ValueError, match="'grouping' parameter"):
            bank.fit(X)
    assert JointBank(4, grouping="soft-learnt", n_assign=2, n_neighbors=5, max_iter=1).fit(X).labels_.shape == (
        2,
        40,
    )


def test_scores_are_inner_products():
    rng = np.random.default_rng(9)
    directions, loadings = (rng.standard_normal((n, 17), dtype=np.float32) for n in (5, 23))
    candidates = rng.integers(0, 5, (23, 4), dtype=np.int32)
    scores = np.empty((23, 4), np.float32)
    score_candidates(directions, loadings, candidates, scores)
    expected = np.take_along_axis(np.abs(loadings.astype(float) @ directions.T), candidates, axis=1)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
