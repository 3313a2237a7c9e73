"""Dimensions that move, against a literal transcription and by what must always hold."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from projbank.bits import unpack
from projbank.learn import moving
from projbank.learn.moving import Mover
from projbank.learn.neighbors import nearest_neighbors
from projbank.methods.banks import JointBank
from projbank.rows.source import as_rows
from tests.learn.test_joint import clustered


def make_bank(rng, n_bits, n_features, n_assign=None):
    shape = (n_features,) if n_assign is None else (n_assign, n_features)
    labels = rng.permuted(np.arange(np.prod(shape)) % n_bits).reshape(shape).astype(np.int32)
    if n_assign is not None:  # a dimension serves a bit only once
        labels = np.argsort(rng.random((n_features, n_bits)), axis=1)[:, :n_assign].T.astype(np.int32)
    weights = rng.standard_normal(shape).astype(np.float32)
    return SimpleNamespace(labels=labels, weights=weights, offsets=np.zeros(n_bits, np.float32))


def literal_move(bank, rows, slopes, means, deviations, share, fewest):
    """Weights in order of |w| times deviation, one by one; new labels, and the places that moved."""
    n_bits, n_features = len(bank.offsets), len(means)
    labels, weights = bank.labels.ravel().copy(), bank.weights.ravel()
    order = sorted(
        (float(np.abs(w) * np.float32(deviations[place % n_features])), place)
        for place, w in enumerate(weights)
        if deviations[place % n_features] > 0
    )
    room = np.bincount(labels, minlength=n_bits) - fewest
    seen, moved = set(), []
    for _, place in order[: int(share * len(weights))]:
        j = place % n_features
        if j in seen:
            continue
        seen.add(j)
        if room[bank.labels.ravel()[place]] <= 0:
            continue
        room[bank.labels.ravel()[place]] -= 1
        pulls = [abs(sum((rows[i, j] - means[j]) * slopes[i, p] for i in range(len(rows)))) for p in range(n_bits)]
        best = int(np.argmax(pulls))
        if pulls[best] > 0 and best not in bank.labels.reshape(-1, n_features)[:, j]:
            labels[place] = best
            moved.append(place)
    return labels.reshape(bank.labels.shape), moved


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    ("n_bits", "n_features", "n_assign"), [(5, 61, None), (1, 9, None), (7, 40, 3), (30, 60, None)]
)
def test_moves_agree_with_the_literal_ones(n_bits, n_features, n_assign, n_threads, monkeypatch):
    monkeypatch.setattr(moving, "SHARE", (0.5, 0.5))
    monkeypatch.setattr(moving, "COLUMNS", 7)
    rng = np.random.default_rng(n_bits)
    rows = rng.standard_normal((12, n_features)).astype(np.float32) * rng.uniform(0.5, 2, n_features).astype(np.float32)
    rows[:, 3] = 2
    slopes = rng.standard_normal((12, n_bits)).astype(np.float32)
    means, deviations = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    deviations[3] = 0
    bank = make_bank(rng, n_bits, n_features, n_assign)
    before = bank.labels.copy(), bank.weights.copy()
    fewest = max(1, bank.labels.size // (4 * n_bits))
    labels, places = literal_move(bank, rows, slopes, means, deviations, 0.5, fewest)
    found = Mover(bank, means, deviations, 70, n_threads).move(rows, slopes)
    assert len(places) > 0 or n_bits == 1
    assert sorted(found) == sorted(places)
    np.testing.assert_array_equal(bank.labels, labels)
    assert not bank.weights.ravel()[found].any()
    stay = np.setdiff1d(np.arange(bank.weights.size), found)
    np.testing.assert_array_equal(bank.weights.ravel()[stay], before[1].ravel()[stay])
    np.testing.assert_array_equal(bank.labels.ravel()[stay], before[0].ravel()[stay])
    assert np.bincount(bank.labels.ravel(), minlength=n_bits).min() >= fewest
    columns = np.sort(bank.labels.reshape(-1, n_features), axis=0)
    assert (np.diff(columns, axis=0) > 0).all()


@pytest.mark.parametrize(
    ("n_bits", "n_features", "n_free", "expected"),
    [
        (500, 32_000, 9000, 2048),
        (2000, 32_000, 9000, 2048),
        (3000, 32_000, 9000, 1398),
        (4000, 32_000, 9000, 1048),
        (8000, 64_000, 9000, 2000),
        (8000, 64_000, 1500, 1500),
        (1000, 128_000, 9000, 1048),  # half a GiB
        (64_000, 512_000, 9000, 1024),
    ],
)
def test_few_and_many_bits_are_judged_by_more_vectors(n_bits, n_features, n_free, expected):
    bank = SimpleNamespace(labels=np.zeros(1, np.int32), weights=None, offsets=np.zeros(n_bits, np.float32))
    assert Mover(bank, np.zeros(n_features), np.ones(n_features), 70).survey_size(n_free) == expected


@pytest.mark.parametrize(("n_bits", "expected"), [(7, 40), (1000, 40), (2000, 21), (2048, 21), (2049, 10), (8000, 10)])
def test_dimensions_move_less_often_where_bits_are_many_or_serve_several(n_bits, expected):
    for shape, moves in (((9,), expected), ((2, 9), 10)):
        bank = SimpleNamespace(labels=np.zeros(shape, np.int32), weights=None, offsets=np.zeros(n_bits, np.float32))
        assert Mover(bank, np.zeros(9), np.ones(9), 70).last == moves


def test_only_learnt_groups_change():
    X = clustered(np.random.default_rng(0), 300, 200)
    given = (np.arange(200) % 20).astype(np.int32)
    np.testing.assert_array_equal(JointBank(20, grouping=given, n_neighbors=10).fit(X).labels_, given)
    learnt = JointBank(20, n_neighbors=10).fit(X)
    assert len(set(learnt.group_sizes_.tolist())) > 1  # those that learning starts from are equally large
    assert learnt.group_sizes_.min() >= 2
    assert learnt.group_sizes_.sum() == 200


@pytest.mark.parametrize("grouping", ["learnt", "soft"])
def test_banks_whose_dimensions_move_are_the_same_on_any_threads(grouping):
    X = clustered(np.random.default_rng(1), 260, 130)
    one, *others = (
        JointBank(17, grouping=grouping, n_neighbors=8, max_iter=12, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2, 3)
    )
    for bank in others:
        np.testing.assert_array_equal(bank.labels_, one.labels_)
        np.testing.assert_array_equal(bank.weights_, one.weights_)


def test_moving_helps_digits_that_were_not_learnt_from(monkeypatch):
    images, digits = load_digits(return_X_y=True)
    X = np.sqrt(images[:, :, None] * images[:, None, 20:30]).reshape(len(images), -1).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)

    def precision(seed):
        bank = JointBank(32, n_neighbors=30, random_state=seed).fit(X[:600])
        bits = unpack(bank.transform(X[900:]), 32).astype(np.float32)
        return np.mean(digits[900:][nearest_neighbors(as_rows(bits), 20)] == digits[900:, None])

    moved = [precision(seed) for seed in range(3)]
    monkeypatch.setattr(moving, "LAST", (0.0, 0.0))
    stayed = [precision(seed) for seed in range(3)]
    assert np.mean(moved) > np.mean(stayed)
