import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits

from projbank import ProjectionBank
from projbank.bits import unpack
from projbank.kernels.encode import transposed_rows
from projbank.learn import descent, joint, target
from projbank.learn.neighbors import nearest_neighbors
from projbank.learn.target import standardise
from projbank.methods.banks import JointBank
from projbank.rows.source import as_rows


def clustered(rng, n, n_features, rank=20):
    """Vectors near a low-dimensional space, with dimensions of uneven size and a mean."""
    hidden = rng.standard_normal((n, rank)) + 3 * rng.standard_normal((8, rank))[rng.integers(0, 8, n)]
    noise = rng.standard_normal((n, n_features))
    return (hidden @ rng.standard_normal((rank, n_features)) + noise + rng.standard_normal(n_features)).astype(
        np.float32
    )


def naive_loss(F, target, deviations, noise=0):
    H = np.tanh(F / deviations + noise)
    S = H @ H.T / F.shape[1]
    pairs = ~np.eye(len(F), dtype=bool)
    return 1 - np.corrcoef(S[pairs], target[pairs])[0, 1] + np.mean(H.mean(axis=0) ** 2)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_agree_with_finite_differences(seed, noisy):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((11, 5)).astype(np.float32)
    noise = rng.standard_normal((11, 5)).astype(np.float32) * noisy
    wanted = rng.standard_normal((11, 11)).astype(np.float32)
    wanted = standardise(wanted + wanted.T)
    loss, slopes = descent.code_loss(F, wanted, noise=noise if noisy else None)
    exact = F.astype(float)
    deviations = exact.std(axis=0)
    assert loss == pytest.approx(naive_loss(exact, wanted, deviations, noise), abs=1e-5)
    for i in range(11):
        for p in range(5):
            step = np.zeros_like(exact)
            step[i, p] = 1e-5
            higher, lower = (naive_loss(moved, wanted, deviations, noise) for moved in (exact + step, exact - step))
            assert slopes[i, p] == pytest.approx((higher - lower) / 2e-5, abs=1e-6)


def test_a_loss_of_many_margins_is_the_same_on_any_threads_and_equal_margins_have_no_slopes():
    rng = np.random.default_rng(4)
    F, noise = (rng.standard_normal((300, 1030), dtype=np.float32) for _ in range(2))
    F[:, 7] = 3
    wanted = standardise(np.corrcoef(rng.standard_normal((300, 20))).astype(np.float32))
    loss, slopes = descent.code_loss(F, wanted, 1, noise=noise)
    assert np.isfinite(slopes).all()
    assert not slopes[:, 7].any()
    for n_threads in (2, 3):
        again, same = descent.code_loss(F, wanted, n_threads, noise=noise)
        assert again == loss
        np.testing.assert_array_equal(same, slopes)


def test_short_codes_have_less_noise():
    assert [descent.noise_level(n_bits) for n_bits in (16, 64, 256, 8000)] == [0.125, 0.25, 0.5, 0.5]
    assert [descent.noise_level(n_bits, 0.2) for n_bits in (64, 8000)] == pytest.approx([0.1, 0.2])


def test_with_less_noise_training_vectors_are_followed_more_closely():
    X = clustered(np.random.default_rng(11), 400, 128)
    ends = [JointBank(32, n_neighbors=20, noise=noise).fit(X).loss_curve_[-3:].mean() for noise in (0, 0.5, 2.0)]
    assert ends[0] < ends[1] < ends[2]


def test_the_loss_falls_and_unseen_digits_are_found_better_than_by_a_random_bank():
    images, digits = load_digits(return_X_y=True)
    X = np.sqrt(images[:, :, None] * images[:, None, 20:40]).reshape(len(images), -1).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    train, rest, truth = X[:900], X[900:], digits[900:]
    bank = JointBank(64, n_neighbors=30, max_iter=25).fit(train)
    assert bank.loss_curve_[-1] < 0.9 * bank.loss_curve_[0]

    untrained = clone(bank).set_params(solver="random").fit(train)
    precision = []
    for model in (bank, untrained):
        bits = unpack(model.transform(rest), 64).astype(np.float32)
        precision.append(np.mean(truth[nearest_neighbors(as_rows(bits), 20)] == truth[:, None]))
    assert precision[0] > precision[1] + 0.02


def test_a_random_bank_has_random_signs_around_the_mean():
    X = clustered(np.random.default_rng(1), 60, 130)
    bank = ProjectionBank(17, n_neighbors=5, solver="random").fit(X)
    assert bank.n_iter_ == len(bank.loss_curve_) == 0
    sizes = np.abs(bank.weights_)
    np.testing.assert_allclose(sizes, sizes[0])
    assert 0.2 < np.mean(bank.weights_ > 0) < 0.8
    np.testing.assert_allclose(bank.decision_function(X.mean(axis=0)[None]), 0, atol=1e-3)


def test_bits_are_balanced():
    X = clustered(np.random.default_rng(2), 500, 256)
    for grouping, most in (("random", 0.15), ("learnt", 0.25)):  # learnt groups may set one cluster apart
        bank = JointBank(32, n_neighbors=20, grouping=grouping).fit(X)
        shares = unpack(bank.transform(X), 32).mean(axis=0)
        assert np.abs(shares - 0.5).mean() < 0.06
        assert np.abs(shares - 0.5).max() < most


def test_the_result_does_not_depend_on_threads_or_kind_of_array(tmp_path):
    X = clustered(np.random.default_rng(3), 70, 130)
    np.save(tmp_path / "x.npy", X)
    expected = JointBank(17, n_neighbors=5, max_iter=3, n_jobs=1).fit(X)
    for data, n_jobs in ((X, 2), (X, 3), (np.load(tmp_path / "x.npy", mmap_mode="r"), 2), (X.astype(np.float64), 1)):
        bank = JointBank(17, n_neighbors=5, max_iter=3, n_jobs=n_jobs).fit(data)
        np.testing.assert_array_equal(bank.weights_, expected.weights_)
        np.testing.assert_array_equal(bank.biases_, expected.biases_)


def test_batches_without_a_kept_target_learn_as_well(monkeypatch):
    X = clustered(np.random.default_rng(4), 300, 128)
    kept = JointBank(16, n_neighbors=10, max_iter=5, grouping="random").fit(X)
    monkeypatch.setattr(target, "KEPT", 10)
    anew = JointBank(16, n_neighbors=10, max_iter=5, grouping="random").fit(X)
    np.testing.assert_allclose(anew.loss_curve_, kept.loss_curve_, atol=1e-3)


@pytest.mark.parametrize("n", [2, 3])
def test_degenerate_data_gives_no_nan(n):
    X = np.zeros((n, 9), np.float32)
    for rows in (X, X + 5, np.vstack([X[:1], X[1:] + 1])):
        bank = JointBank(4, n_neighbors=1, max_iter=2).fit(rows)
        assert np.isfinite(bank.weights_).all()
        assert np.isfinite(bank.biases_).all()
        assert np.isfinite(bank.loss_curve_).all()


def sparse_counts(rng, n, n_features, n_kinds=6):
    """Rows with few values, each kind of row with favourites of its own, and their kinds."""
    kinds = rng.integers(0, n_kinds, n)
    rates = np.full((n_kinds, n_features), 0.01)
    for kind in range(n_kinds):
        rates[kind, rng.permutation(n_features)[: n_features // 20]] = 0.2
    return rng.poisson(rates[kinds]).astype(np.float32), kinds


def test_dimensions_of_sparse_data_serve_several_groups_and_dense_ones_one():
    rng = np.random.default_rng(5)
    X, kinds = sparse_counts(rng, 600, 2000)
    hard = JointBank(125, grouping="random", max_iter=20).fit(X[:400])
    bank = JointBank(125, max_iter=20).fit(X[:400])
    n_assign, n_features = bank.labels_.shape
    values = np.count_nonzero(X) / len(X)
    assert n_features == 2000
    assert 1 < n_assign <= 2000 / np.count_nonzero(X[:400], axis=1).min()
    assert n_assign * values < 1.1 * n_features  # no more multiply-adds than a dense vector costs
    assert JointBank(125, max_iter=1).fit(X[:400] + 1).labels_.shape == (2000,)

    def precision(model):
        bits = unpack(model.transform(X[400:]), 125).astype(np.float32)
        return np.mean(kinds[400:][nearest_neighbors(as_rows(bits), 10)] == kinds[400:, None])

    assert precision(bank) > precision(hard) + 0.05


@pytest.mark.parametrize(("nonzeros", "expected"), [(0.0, 15), (2000.0, 1), (250.0, 1), (249.0, 2), (10.0, 15)])
def test_groups_for_sparse(nonzeros, expected):
    assert joint.groups_for_sparse(nonzeros, 16, 2000) == expected


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_sparse_data_give_the_same_bank_for_any_threads_and_form(n_jobs):
    X, _ = sparse_counts(np.random.default_rng(6), 250, 601)
    expected = JointBank(37, n_neighbors=10, max_iter=3, n_jobs=1).fit(X)
    assert expected.labels_.ndim == 2
    for data in (X, sp.csr_array(X)):
        bank = JointBank(37, n_neighbors=10, max_iter=3, n_jobs=n_jobs).fit(data)
        np.testing.assert_array_equal(bank.weights_, expected.weights_)
        np.testing.assert_array_equal(bank.transform(data), expected.transform(X))
    margins = X @ expected.to_csr().toarray().T - expected.biases_
    np.testing.assert_allclose(expected.decision_function(X), margins, atol=1e-4)


@pytest.mark.parametrize(("n", "n_features", "n_assign"), [(1, 7, 1), (9, 40, 3), (17, 65, 5)])
def test_transposed_rows_agree_with_the_matrix_product(n, n_features, n_assign):
    rng = np.random.default_rng(7)
    X = (rng.standard_normal((n, n_features)) * (rng.random((n, n_features)) < 0.2)).astype(np.float32)
    labels = rng.integers(0, 6, n_features * n_assign).astype(np.uint32)
    slopes = rng.standard_normal((n, 6)).astype(np.float32)
    out = np.full(n_features * n_assign, np.nan, np.float32)
    middle = n_features // 2
    for first, last in ((0, middle), (middle, n_features)):
        transposed_rows(X, labels, slopes, first, last, out)
    expected = np.einsum("ij,ije->je", X, slopes[:, labels].reshape(n, n_features, n_assign))
    np.testing.assert_allclose(out.reshape(n_features, n_assign), expected, rtol=1e-5, atol=1e-5)


def test_learning_stops_when_held_back_vectors_gain_no_more(capsys):
    X = clustered(np.random.default_rng(8), 200, 64)
    bank = JointBank(16, n_neighbors=20, max_iter=500, verbose=1).fit(X)
    assert bank.n_iter_ < 500
    assert len(bank.loss_curve_) == bank.n_iter_ + 1
    told = capsys.readouterr().err
    assert f"stopped after {bank.n_iter_} iterations" in told
    for word in ("loss", "P(bit) - 1/2", "neighbour recall"):
        assert told.count(word) >= bank.n_iter_ // 2


def test_the_best_weights_for_held_back_vectors_are_kept(monkeypatch):
    X = clustered(np.random.default_rng(9), 300, 64)
    seen = []
    judge = descent.Referee.judge

    def spy(self):
        weights, best = self._bank.weights.copy(), self._best
        told = judge(self)
        if self._best < best:
            seen.append(self._bank.unit * weights)
        return told

    monkeypatch.setattr(descent.Referee, "judge", spy)
    bank = JointBank(16, n_neighbors=20, max_iter=60).fit(X)
    scales = np.bincount(bank.labels_, seen[-1] / bank.weights_) / bank.group_sizes_  # one for each bit
    assert (scales > 0).all()
    np.testing.assert_allclose(bank.weights_ * scales[bank.labels_], seen[-1], rtol=1e-5)


def test_few_vectors_are_all_learnt_from():
    held, free = descent.hold_back(199, 0)
    assert len(held) == 0
    np.testing.assert_array_equal(free, np.arange(199))
    held, free = descent.hold_back(1003, 0)
    assert len(held) == 100
    np.testing.assert_array_equal(np.sort(np.concatenate([held, free])), np.arange(1003))


def test_margins_have_deviation_one_and_queries_are_their_tanh():
    X = clustered(np.random.default_rng(10), 500, 200)
    bank = JointBank(24, n_neighbors=20).fit(X)
    margins = bank.decision_function(X)
    np.testing.assert_allclose(margins.std(axis=0), 1, atol=0.15)
    ordered = X[np.argsort(margins[:, 0])]  # as of a file sorted by class: the first rows are no sample
    tall = np.repeat(ordered, 3, axis=0)
    again = JointBank(24, n_neighbors=20, max_iter=5).fit(tall).decision_function(tall)
    np.testing.assert_allclose(again.std(axis=0), 1, atol=0.15)
    np.testing.assert_allclose(bank.query_values(X), np.tanh(margins), rtol=1e-6)
    plain = ProjectionBank(24, solver="paper", n_neighbors=20, max_iter=3).fit(X)
    np.testing.assert_array_equal(plain.query_values(X), plain.decision_function(X))


def test_batches_are_smaller_where_bits_are_many():
    assert [descent.batch_size(n_bits) for n_bits in (7, 2048, 2560, 4096, 100_000)] == [512, 512, 409, 256, 256]
