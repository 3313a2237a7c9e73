import contextlib
import itertools
import re

import numpy as np
import pytest
import scipy.sparse as sp

from projbank import HammingIndex, ProjectionBank, load
from projbank.bits import unpack
from projbank.learn import descent
from projbank.learn.descent import code_loss, in_words
from projbank.learn.mixed import Head, principal_components
from projbank.learn.target import WalkTarget, approximate_neighbors, cosine_share, exact_neighbors, neighbor_walk
from projbank.metrics import precision_at_k
from projbank.rows.source import as_rows


def clustered(rng, n, n_features=1500, n_clusters=12, noise=4.0):
    """Vectors of clusters in a space of 10 dimensions under much noise, and the clusters."""
    labels = rng.integers(n_clusters, size=n)
    hidden = 2 * rng.standard_normal((n_clusters, 10))[labels] + rng.standard_normal((n, 10))
    X = hidden @ rng.standard_normal((10, n_features)) + noise * rng.standard_normal((n, n_features))
    return (X + rng.standard_normal(n_features)).astype(np.float32), labels


def mixed(n_bits, **params):
    return ProjectionBank(n_bits, solver="mixed", n_jobs=1, **params)


def found(bank, X, labels, n_queries=150, k=10):
    index = HammingIndex(bank.transform(X[n_queries:]), n_bits=bank.n_bits_)
    ids = index.search(bank.transform(X[:n_queries]), k=k)[1]
    return precision_at_k(ids, labels[n_queries:], labels[:n_queries], k)


def test_codes_find_more_of_a_cluster_than_those_of_a_random_bank():
    X, labels = clustered(np.random.default_rng(0), 800, noise=10.0)
    learnt = found(mixed(64).fit(X), X, labels)
    assert learnt > found(ProjectionBank(64, solver="random").fit(X), X, labels) + 0.1


@pytest.mark.parametrize("n_bits", [1, 7, 64, 700, 2000])
def test_codes_of_any_length_also_beyond_the_dimensions(n_bits):
    X, _ = clustered(np.random.default_rng(1), 240, 300)
    bank = mixed(n_bits, max_iter=2).fit(X)
    margins = bank.decision_function(X)
    assert margins.shape == (240, n_bits)
    assert bank.transform(X).shape == (240, -(-n_bits // 8))
    np.testing.assert_allclose(margins.std(axis=0), 1, atol=0.35)
    np.testing.assert_array_equal(bank.query_values(X), np.tanh(margins))


def test_longer_codes_are_shorter_ones_and_more():
    X, _ = clustered(np.random.default_rng(2), 240, 300)
    longest = mixed(700, max_iter=2).fit(X)
    margins, bits = longest.decision_function(X), unpack(longest.transform(X), 700)
    for n_bits in (64, 100, 256, 512, 600):
        bank = mixed(n_bits, max_iter=2).fit(X)
        np.testing.assert_allclose(bank.decision_function(X), margins[:, :n_bits], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(unpack(bank.transform(X), n_bits), bits[:, :n_bits])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", ["mixed", "joint"])
def test_how_long_learning_goes_on_is_known_within_a_factor_of_two(solver, seed, monkeypatch):
    told = []

    @contextlib.contextmanager
    def noted(title, total, verbose):
        yield lambda steps, left=None: told.append(left)

    monkeypatch.setattr("projbank.learn.descent.progress", noted)
    X, _ = clustered(np.random.default_rng(seed), 900)
    n_iter = ProjectionBank(64, solver=solver, n_jobs=1).fit(X).n_iter_
    assert len(told) == n_iter
    assert n_iter < 70
    first = -(-n_iter // 10)
    assert (n_iter - first) / 2 <= told[first - 1] <= 2 * (n_iter - first)


@pytest.mark.parametrize("n_rows", [2, 3, 30, 230])
def test_few_rows_are_enough(n_rows):
    X, _ = clustered(np.random.default_rng(3), n_rows, 100)
    assert mixed(16, max_iter=2).fit(X).transform(X).shape == (n_rows, 2)


def test_rows_that_are_all_the_same_are_no_error():
    X = np.ones((40, 30), np.float32)
    assert np.isfinite(mixed(16, max_iter=2).fit(X).decision_function(X)).all()


def test_same_bits_for_any_threads_and_kind_of_rows():
    X, _ = clustered(np.random.default_rng(4), 300, 400)
    X[np.abs(X) < np.quantile(np.abs(X), 0.9)] = 0
    codes = mixed(600, max_iter=3).fit(X).transform(X)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(mixed(600, max_iter=3).set_params(n_jobs=n_jobs).fit(X).transform(X), codes)
    np.testing.assert_array_equal(mixed(600, max_iter=3).fit(sp.csr_array(X)).transform(X), codes)


def test_sizes_are_as_asked_for_and_survive_a_file(tmp_path):
    X, _ = clustered(np.random.default_rng(5), 230, 300)
    bank = mixed(40, n_sums=64, rank=9, max_iter=2).fit(X)
    assert bank.inner_.shape == (64, 9)
    assert bank.outer_.shape == (9, 40)
    assert bank.labels_.shape == (300,)
    assert bank.model_bytes == 4 * (2 * 300 + 64 + 64 * 9 + 9 * 40 + 40)
    bank.save(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "bank.safetensors").transform(X), bank.transform(X))


def test_groups_may_be_given():
    X, _ = clustered(np.random.default_rng(6), 230, 300)
    labels = np.arange(300) % 25
    bank = mixed(40, grouping=labels, max_iter=2).fit(X)
    np.testing.assert_array_equal(bank.labels_, labels)
    assert len(bank.centers_) == 25
    assert mixed(40, n_assign=2, n_sums=50, max_iter=2).fit(X).labels_.shape == (2, 300)


def test_only_a_sample_is_learnt_from_and_the_rest_is_not_looked_at(capsys):
    X, _ = clustered(np.random.default_rng(7), 400, 200)
    bank = mixed(16, train_size=150, max_iter=2, verbose=1).fit(X)
    told = capsys.readouterr().err
    assert "learning from 150 of 400 rows" in told
    assert re.search(r"learning will take about \d+ s\n", told)
    assert bank.transform(X).shape == (400, 2)


def test_how_long_learning_takes_is_told_after_its_first_iteration(monkeypatch, capsys):
    X, _ = clustered(np.random.default_rng(7), 300, 200)
    clock = itertools.count(100, 8)  # seconds from one look at it to the next
    monkeypatch.setattr(descent.time, "perf_counter", lambda: next(clock))
    mixed(16, max_iter=3, verbose=1).fit(X)
    assert capsys.readouterr().err.count("learning will take about 16 s\n") == 1
    assert [in_words(seconds) for seconds in (0.2, 98.4, 150, 600)] == ["1 s", "98 s", "2 minutes", "10 minutes"]


@pytest.mark.parametrize("n_bits", [63, 64])
def test_every_mini_batch_teaches_one_of_the_codes_that_a_code_begins_with(n_bits, monkeypatch):
    X, _ = clustered(np.random.default_rng(18), 300, 200)
    widths = []

    def noted(margins, *args, **kwargs):
        widths.append(margins.shape[1])
        return code_loss(margins, *args, **kwargs)

    monkeypatch.setattr(descent, "code_loss", noted)
    mixed(n_bits, max_iter=3).fit(X)
    if n_bits == 63:
        assert set(widths) == {63}
        return
    assert len(set(widths[::2])) == 1
    assert set(widths[1::2]) == {n for n in (64, 128, 256) if n < widths[0]}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_sums": 301}, "'n_sums' parameter of ProjectionBank must be at most the number of features, 300. Got 301"),
        ({"n_sums": 0}, "'n_sums' parameter of ProjectionBank must be an int"),
        ({"rank": 0.5}, "'rank' parameter"),
        ({"train_size": 1}, "'train_size' parameter"),
        ({"n_neighbors": "some"}, "'n_neighbors' parameter"),
        ({"noise": "much"}, "'noise' parameter"),
        ({"grouping": "learnt"}, "'grouping' parameter"),
    ],
)
def test_wrong_parameters_are_named(params, words):
    X, _ = clustered(np.random.default_rng(8), 60, 300)
    with pytest.raises(ValueError, match=words):
        mixed(16, **params).fit(X)


def test_more_neighbours_than_rows_are_lowered_with_a_warning():
    X, _ = clustered(np.random.default_rng(8), 60, 300)
    with pytest.warns(UserWarning, match="n_neighbors=100 is lowered to 59"):
        mixed(16, n_neighbors=100, max_iter=1).fit(X)


def test_gradient_of_the_head_agrees_with_finite_differences():
    rng = np.random.default_rng(9)
    rows, slopes = rng.standard_normal((11, 6), np.float32), rng.standard_normal((11, 5), np.float32)
    head = Head(rng.standard_normal((6, 3), np.float32), 5, rng, 1)

    def value(weights, offsets):
        inner, outer = weights[:18].reshape(6, 3), weights[18:].reshape(3, 5)
        return float(np.sum((rows.astype(float) @ inner @ outer + offsets) * slopes))

    head.margins(rows)
    in_weights, in_offsets = head.gradient(slopes)
    weights, offsets = head.weights.astype(float), head.offsets.astype(float)
    for gradient, start, place in ((in_weights, weights, 0), (in_offsets, offsets, 1)):
        for e in range(len(start)):
            step = np.zeros_like(start)
            step[e] = 1e-5
            ends = [value(weights + s, offsets) if place == 0 else value(weights, offsets + s) for s in (step, -step)]
            assert gradient[e] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-3)


def test_components_span_what_an_eigendecomposition_spans():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((400, 30)).astype(np.float32) * 0.7 ** np.arange(30, dtype=np.float32)
    directions = principal_components(X, 5, rng, 2)
    exact = np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :5]
    unit = directions / np.linalg.norm(directions, axis=0)
    np.testing.assert_allclose(np.abs(unit.T @ exact), np.eye(5), atol=0.02)


def test_the_target_is_a_walk_of_four_steps():
    rng = np.random.default_rng(11)
    walk = neighbor_walk(exact_neighbors(as_rows(rng.standard_normal((90, 20), np.float32)), 6))
    dense = walk.toarray().astype(float)
    ids = np.sort(rng.choice(90, 40, replace=False))
    expected = np.linalg.matrix_power(dense, 4)[np.ix_(ids, ids)]
    pairs = ~np.eye(40, dtype=bool)
    expected = (expected - expected[pairs].mean()) / expected[pairs].std()
    for n_threads in (1, 3):
        found = WalkTarget(walk, n_threads).of(ids)
        np.testing.assert_allclose(found[pairs], expected[pairs], atol=1e-3)
        assert not np.diag(found).any()


def test_cosines_are_the_given_share_of_the_target():
    rng = np.random.default_rng(16)
    X = rng.standard_normal((90, 20), np.float32)
    walk, directions = neighbor_walk(exact_neighbors(as_rows(X), 6)), X / np.linalg.norm(X, axis=1, keepdims=True)
    ids, pairs = np.arange(90), ~np.eye(90, dtype=bool)
    alone, mixture = WalkTarget(walk).of(ids)[pairs], WalkTarget(walk, 1, None, directions, 0.4).of(ids)[pairs]
    cosines = (directions @ directions.T)[pairs]
    expected = 0.6 * alone + 0.4 * (cosines - cosines.mean()) / cosines.std()
    np.testing.assert_allclose(mixture, (expected - expected.mean()) / expected.std(), atol=1e-3)


def test_cosines_count_where_neighbours_of_neighbours_are_no_neighbours():
    rng = np.random.default_rng(17)
    noise = exact_neighbors(as_rows(rng.standard_normal((600, 500), np.float32)), 12)
    clusters = exact_neighbors(as_rows(clustered(rng, 600, noise=1.0)[0]), 12)
    for ids in (noise, clusters):
        near = [set(some[:10]) for some in ids.tolist()]
        closed = np.mean([len(near[i] & near[j]) / 10 for i in range(600) for j in near[i]])
        assert cosine_share(ids) == pytest.approx(0.5 * np.clip((0.16 - closed) / 0.03, 0, 1), abs=1e-6)
    assert cosine_share(noise) == 0.5
    assert cosine_share(clusters) == 0


@pytest.mark.parametrize("n_rows", [40, 700])
def test_approximate_neighbours_are_nearly_all_the_exact_ones_on_any_threads(n_rows):
    rng = np.random.default_rng(12)
    X, _ = clustered(rng, n_rows, 120, noise=1.0)
    sums = X - X.mean(axis=0)
    components = principal_components(sums, 12, rng, 1)
    exact = exact_neighbors(as_rows(sums), 8)
    near = approximate_neighbors(sums, components, 8)
    assert near.shape == (n_rows, 8)
    assert not (near == np.arange(n_rows)[:, None]).any()
    shared = [len(np.intersect1d(*both)) for both in zip(exact, near, strict=True)]
    assert np.mean(shared) > 0.9 * 8
    for n_threads in (2, 3):
        np.testing.assert_array_equal(approximate_neighbors(sums, components, 8, n_threads=n_threads), near)


def hidden_classes(rng, n):
    """Vectors whose classes stand in few of many strong directions, which neighbours hardly tell."""
    labels = rng.integers(5, size=n)
    hidden = 3 * rng.standard_normal((n, 60))
    hidden[:, :5] += 4 * np.eye(5)[labels]
    return (hidden @ rng.standard_normal((60, 600)) + rng.standard_normal((n, 600))).astype(np.float32), labels


def test_labels_teach_what_neighbours_do_not_tell():
    X, labels = hidden_classes(np.random.default_rng(13), 1200)
    plain, half = mixed(64).fit(X[150:]), np.where(np.arange(1050) % 2, labels[150:], -1)
    taught, partly = mixed(64).fit(X[150:], labels[150:]), mixed(64).fit(X[150:], half)
    without, with_all, with_half = (found(bank, X, labels) for bank in (plain, taught, partly))
    assert with_all > without + 0.1
    assert with_all > with_half > without


def test_labels_may_be_texts_and_unknown_ones_change_nothing():
    X, labels = clustered(np.random.default_rng(14), 240, 200)
    numbers = mixed(16, max_iter=2).fit(X, labels).transform(X)
    np.testing.assert_array_equal(
        mixed(16, max_iter=2).fit(X, [f"{label:02}" for label in labels]).transform(X), numbers
    )
    unknown = mixed(16, max_iter=2).fit(X, np.full(240, -1)).transform(X)
    np.testing.assert_array_equal(unknown, mixed(16, max_iter=2).fit(X).transform(X))
    assert (unknown != numbers).any()


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.zeros(59), r"'y' parameter of ProjectionBank must be an array of shape \(60,\).*Got 'shape \(59,\)'"),
        (np.full(60, 0.5), "'y' parameter of ProjectionBank must be labels: whole numbers"),
        (np.full(60, np.nan), "'y' parameter of ProjectionBank must be labels: whole numbers"),
    ],
)
def test_labels_that_are_none_are_refused(y, words):
    X, _ = clustered(np.random.default_rng(8), 60, 300)
    with pytest.raises(ValueError, match=words):
        mixed(16).fit(X, y)


def test_no_step_of_the_walk_leads_from_one_class_to_another():
    rng = np.random.default_rng(15)
    ids = exact_neighbors(as_rows(rng.standard_normal((80, 10), np.float32)), 6)
    labels = rng.integers(-1, 3, 80)
    walk, plain = neighbor_walk(ids, labels).toarray(), neighbor_walk(ids).toarray()
    differ = (labels[:, None] != labels) & (labels[:, None] != -1) & (labels != -1)
    assert not walk[differ].any()
    np.testing.assert_array_equal(walk[~differ] > 0, plain[~differ] > 0)
    np.testing.assert_allclose(walk, walk.T, atol=1e-6)
    dense = WalkTarget(neighbor_walk(ids, labels), labels=labels).of(np.arange(80))
    known = labels != -1
    same = (labels[:, None] == labels) & known[:, None] & known & ~np.eye(80, dtype=bool)
    assert dense[same].mean() > dense[differ].mean() + 1


def test_neighbours_among_components_see_through_noise():
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 8, 900)
    X = (rng.standard_normal((8, 1500))[kinds] * 0.12 + rng.standard_normal((900, 1500))).astype(np.float32)

    def precision(**params):
        bank = ProjectionBank(64, n_sums=512, max_iter=8, **params).fit(X[:600])
        ids = HammingIndex(bank.transform(X[:600]), n_bits=64).search(bank.transform(X[600:]), 10)[1]
        return np.mean(kinds[ids] == kinds[600:, None])

    assert precision(n_components=10) > 1.5 * precision()


def test_noisy_cosines_stay_out_of_the_target(capsys):
    X = np.random.default_rng(0).standard_normal((300, 400), np.float32)
    for n_components, told in (("all", True), (10, False)):
        ProjectionBank(16, n_sums=128, max_iter=1, n_components=n_components, verbose=1).fit(X)
        assert ("is cosines" in "".join(capsys.readouterr())) == told


@pytest.mark.parametrize("value", [0, "auto", 1.5])
def test_a_wrong_number_of_components_is_told(value):
    with pytest.raises(ValueError, match="'n_components' parameter"):
        ProjectionBank(8, n_components=value).fit(np.ones((5, 20), np.float32))
