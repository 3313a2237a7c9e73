"""Each method against an independent implementation, or against a literal transcription of its formula."""

import faiss
import nanopq
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import sklearn.decomposition
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from projbank.bank import ProjectionBank
from projbank.bits import unpack
from projbank.learn.neighbors import nearest_neighbors, positive_pairs
from projbank.learn.rotation import learn_rotation, nearest_rotation
from projbank.methods import METHODS, search
from projbank.methods.bpbc import code_shape, near_square
from projbank.methods.cbe import CirculantProjection, best_spectrum, plan
from projbank.methods.components import principal_components, smallest_modes
from projbank.methods.itq import discriminants
from projbank.metrics import pair_errors, precision_at_k
from projbank.rows.source import as_rows
from tests.methods.data import digit_products, vectors
from tests.reference import methods as reference


def falls(curve):
    """Whether a curve never rises by more than rounding."""
    return np.all(np.diff(curve) <= 1e-5 * np.abs(curve[:-1]))


@pytest.mark.parametrize(("n", "n_features"), [(50, 200), (200, 50), (30, 30)])
def test_components_are_those_of_scikit_learn(n, n_features):
    X = vectors(n, n_features, rank=20)
    k = 8
    peer = sklearn.decomposition.PCA(k, svd_solver="full").fit(X.astype(float))
    directions, coordinates = principal_components(as_rows(X), X.mean(axis=0, dtype=float), k)
    np.testing.assert_allclose(np.abs(np.sum(directions.T * peer.components_, axis=1)), 1, atol=1e-4)
    np.testing.assert_allclose(np.abs(coordinates), np.abs(peer.transform(X)), atol=1e-2)
    np.testing.assert_allclose((X - X.mean(axis=0)) @ directions, coordinates, atol=1e-3)
    method = METHODS["pca"](k).fit(X)
    np.testing.assert_allclose(method.transform(X), coordinates, atol=1e-3)


def test_fewer_components_than_asked_are_told():
    with pytest.warns(UserWarning, match="n_bits=30 is lowered to 8"):
        assert METHODS["pca"](30).fit(vectors(10, 100)).transform(vectors(10, 100)).shape == (10, 8)  # two rows equal


def test_random_rotation_keeps_distances():
    X = vectors(20, 500)[:-1]
    codes = METHODS["rr"](4000).fit(X).transform(X)
    true = ((X[:, None] - X) ** 2).sum(axis=2)[np.triu_indices(19, 1)]
    kept = ((codes[:, None] - codes) ** 2).sum(axis=2)[np.triu_indices(19, 1)]
    np.testing.assert_allclose(kept / true, 1, atol=0.15)


@pytest.mark.parametrize("name", ["lsh", "srht+sign", "cbe-rand"])
def test_bits_differ_as_often_as_the_angle_says(name):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4000))
    angles = np.linspace(0.1, 3, 6)
    X = np.array([np.cos(t) * a + np.sin(t) * (b - a * (a @ b) / (a @ a)) for t in (0, *angles)], np.float32)
    method = METHODS[name](4000, center=False).fit(X)
    bits = unpack(method.transform(X), 4000)
    shares = (bits[1:] != bits[0]).mean(axis=1)
    norm = np.linalg.norm(X, axis=1)
    expected = np.arccos(X[1:] @ X[0] / norm[1:] / norm[0]) / np.pi
    np.testing.assert_allclose(shares, expected, atol=0.04)


@pytest.mark.parametrize("name", ["lsh", "srht+sign", "cbe-rand", "cbe", "bpbc"])
def test_centring_equals_centred_data(name):
    X = vectors(40, 96)
    params = {"max_iter": 2} if name in ("cbe", "bpbc") else {}
    centred = METHODS[name](32, center=True, **params).fit(X)
    plain = METHODS[name](32, center=False, **params).fit(X - X.mean(axis=0))
    np.testing.assert_allclose(
        centred.decision_function(X), plain.decision_function(X - X.mean(axis=0)), rtol=1e-3, atol=1e-3
    )


def test_product_quantisation_agrees_with_nanopq():
    X, _ = digit_products(400)
    X = X[:, :512]
    method = METHODS["pq"](32, max_iter=5).fit(X)
    peer = nanopq.PQ(M=4, Ks=256, verbose=False)
    peer.codewords, peer.Ds, peer.code_dtype = method.centroids_, 128, np.uint8
    codes = method.transform(X)
    np.testing.assert_array_equal(codes, peer.encode(X))
    distances, rows = search(method, X[:5], codes, 10)
    for query, found, near in zip(X[:5], distances, rows, strict=True):
        expected = peer.dtable(query).adist(codes)
        np.testing.assert_allclose(found, expected[near], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found, np.sort(expected)[:10], rtol=1e-3, atol=1e-4)


def test_random_rotation_then_pq_is_pq_of_the_rotated_vectors():
    X, _ = digit_products(300)
    method = METHODS["rr+pq"](64, max_iter=5).fit(X)
    rotated = X @ method.projection_
    peer = nanopq.PQ(M=8, Ks=256, verbose=False)
    peer.codewords, peer.Ds, peer.code_dtype = method.centroids_, 8, np.uint8
    assert np.mean(method.transform(X) == peer.encode(rotated)) > 0.999  # a centre may tie to rounding


def test_few_training_vectors_give_fewer_centres_but_the_same_length():
    method = METHODS["pq"](48).fit(vectors(20, 60))
    assert method.centroids_.shape == (12, 16, 5)
    assert method.code_bytes == 6


def test_rabitq_is_faiss_after_the_reduction():
    X, _ = digit_products(300)
    method = METHODS["rabitq"](200).fit(X)
    reduced = method._project(X)
    index = faiss.IndexRaBitQ(200, faiss.METRIC_L2)
    index.train(reduced)
    faiss.copy_array_to_vector(method.center_, index.center)
    index.qb = 8
    index.add(reduced)
    codes = method.transform(X)
    assert codes.shape == (300, 25 + 8)
    expected, _ = index.search(reduced[:7], 20)
    np.testing.assert_allclose(search(method, X[:7], codes, 20)[0], expected, rtol=1e-4)
    np.testing.assert_allclose(method.center_, reduced.mean(axis=0), atol=1e-5)
    true = ((reduced[:7, None] - reduced) ** 2).sum(axis=2)
    assert np.corrcoef(search(method, X[:7], codes, 300)[0].ravel(), np.sort(true, axis=1).ravel())[0, 1] > 0.9


def test_merged_features():
    X = vectors(20, 60)
    method = METHODS["pka"](7).fit(X)
    np.testing.assert_allclose(
        method.transform(X), [reference.merged(x, method.labels_) for x in X], rtol=1e-4, atol=1e-4
    )


def test_signs():
    X = vectors(20, 61)
    np.testing.assert_array_equal(unpack(METHODS["sign"]().fit(X).transform(X), 61), X > 0)
    centred = METHODS["sign"](center=True).fit(X)
    np.testing.assert_array_equal(unpack(centred.transform(X), 61), X.mean(axis=0) < X)


def test_alpha_zero_on_fisher_vectors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 2 * 5 * 8)).astype(np.float32)
    X.reshape(9, 2, 5, 8)[2:, :, 3] = 0  # a Gaussian that no descriptor visited
    X[4, :8] = 0  # visited, as its variance gradients show
    method = METHODS["alpha0"](descriptor_size=8).fit(X)
    assert method.n_bits_ == 5 * 9
    np.testing.assert_array_equal(unpack(method.transform(X), 45), [reference.alpha_zero(x.tolist(), 5, 8) for x in X])
    with pytest.raises(ValueError, match=r"'descriptor_size' .* a divisor of the 40 mean gradients"):
        METHODS["alpha0"](descriptor_size=7).fit(X)


def test_alpha_zero_of_the_papers_fisher_vectors_has_the_papers_length():
    assert METHODS["alpha0"]().fit(np.ones((2, 64_000), np.float32)).n_bits_ == (128 + 1) * 250


@pytest.mark.parametrize("criterion", ["pairs", "balance"])
def test_the_selected_bits_are_the_best(criterion):
    X = vectors(80, 50)
    method = METHODS["sign-select"](9, criterion=criterion, n_neighbors=6).fit(X)
    bits = X.mean(axis=0, dtype=np.float64).astype(np.float32) < X
    graph = positive_pairs(nearest_neighbors(as_rows(X), 6, X.mean(axis=0)))
    faults = pair_errors(bits, graph) if criterion == "pairs" else np.abs(bits.mean(axis=0) - 0.5)
    assert sorted(method.dimensions_) == sorted(np.argsort(faults, kind="stable")[:9])
    np.testing.assert_array_equal(unpack(method.transform(X), 9), bits[:, method.dimensions_])


def test_spectral_modes_and_values():
    ranges = np.array([9.0, 4.0, 4.0, 0.5], np.float32)
    for n_bits in (1, 2, 7, 40):
        assert [tuple(pair) for pair in smallest_modes(ranges, n_bits).tolist()] == reference.spectral_modes(
            ranges.tolist(), n_bits
        )
    X = vectors(60, 90)
    method = METHODS["sph"](30).fit(X)
    projected = (X - X.mean(axis=0, dtype=float)) @ method.directions_.astype(float)
    low, width = projected.min(axis=0), np.ptp(projected, axis=0)
    expected = [reference.spectral_value(projected[:, c], low[c], width[c], m) for c, m in method.modes_]
    np.testing.assert_allclose(method.decision_function(X), np.transpose(expected), atol=5e-3)


def test_bilinear_codes():
    for n_features, n_bits in ((96, 20), (97, 7), (60, 11)):
        X = vectors(12, n_features)
        method = METHODS["bpbc"](n_bits, max_iter=2).fit(X)
        mean = X.mean(axis=0, dtype=float)
        expected = [reference.bilinear(x - mean, method.left_, method.right_)[:n_bits] for x in X.astype(float)]
        np.testing.assert_allclose(method.decision_function(X), expected, atol=1e-3)
        for rotation in (method.left_, method.right_):
            np.testing.assert_allclose(rotation.T @ rotation, np.eye(rotation.shape[1]), atol=1e-5)


def test_bilinear_learning_beats_other_rotations_and_its_objective_falls():
    X, _ = digit_products(200)
    method = METHODS["bpbc"](100, max_iter=12).fit(X)
    curve = method.objective_curve_
    assert falls(curve)
    assert curve[-1] < 1.02 * curve[0]  # both negative: at least 2 per cent better than random rotations
    centred = X - X.mean(axis=0)
    now = -np.abs(method._project(centred)[:, : method.n_bits_]).sum() / 200
    np.testing.assert_allclose(curve[-1], now, rtol=1e-3)
    assert METHODS["bpbc"](10, n_rows=13).fit(X).left_.shape[0] == 13


@pytest.mark.parametrize("n_features", [1, 2, 7, 32_000, 64_000, 65_537, 170_400])
def test_matrix_shapes(n_features):
    left, right = near_square(n_features)
    assert n_features <= left * right < n_features + left
    assert left <= right < 4 * left + 4
    for n_bits in {1, min(997, n_features), n_features // 16 or 1, n_features}:
        d1, d2 = code_shape(n_bits, left, right)
        assert d1 <= left
        assert d2 <= right
        assert n_bits <= d1 * d2 <= 1.5 * n_bits + 2


@pytest.mark.parametrize(
    ("n_features", "n_bits"), [(1, 1), (2, 1), (30, 30), (31, 31), (97, 5), (600, 40), (600, 599), (1000, 8)]
)
def test_circulant_projection_is_the_matrix_product(n_features, n_bits):
    rng = np.random.default_rng(n_features)
    X = rng.standard_normal((3, n_features), dtype=np.float32)
    r = rng.standard_normal(n_features, dtype=np.float32)
    signs = rng.integers(0, 2, n_features, dtype=np.uint8)
    expected = (X * np.where(signs, -1, 1)) @ reference.circulant(r).T
    found = CirculantProjection(r, signs, n_bits)(X)
    np.testing.assert_allclose(found, expected[:, :n_bits], atol=1e-4 * np.sqrt(n_features))


def test_long_circulant_projections_agree_with_one_cyclic_convolution():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2, 65_537), dtype=np.float32)
    r = rng.standard_normal(65_537, dtype=np.float32) / 256
    signs = np.zeros(65_537, np.uint8)
    expected = np.fft.irfft(np.fft.rfft(X.astype(float)) * np.fft.rfft(r.astype(float)), 65_537)
    np.testing.assert_allclose(CirculantProjection(r, signs, 4000)(X), expected[:, :4000], atol=1e-4)
    for n_features, n_bits in ((64_000, 4000), (170_400, 10_000)):
        n_pieces, length, size = plan(n_features, n_bits)
        assert n_pieces * length >= n_features
        assert size >= length + n_bits - 1


def test_the_best_frequency_is_a_minimum():
    rng = np.random.default_rng(2)
    power = rng.exponential(2, 50)
    agreement = rng.standard_normal(50) + 1j * rng.standard_normal(50)
    agreement[:2] = 0
    power[0] = 100  # the best size is 0
    for lam in (0.1, 1.0, 10.0):
        found = best_spectrum(power, agreement, lam)

        def loss(a, m, c, lam=lam):
            size = a[0] ** 2 + a[1] ** 2
            return m * size - 2 * (a[0] * c.real - a[1] * c.imag) + lam * (size - 1) ** 2

        for a, m, c in zip(found, power, agreement, strict=True):
            here = loss((a.real, a.imag), m, c)
            best = min(
                scipy.optimize.minimize(loss, start, (m, c)).fun for start in ((1, 0), (-1, 0.1), (0, 1), (0, -1))
            )
            assert here <= best + 1e-8


def test_learnt_circulant_objective_is_the_matrix_formula_and_falls():
    X = vectors(40, 60)
    for n_bits in (60, 17):
        method = METHODS["cbe"](n_bits, max_iter=15, center=False).fit(X)
        curve = method.objective_curve_
        assert falls(curve)
        assert curve[-1] < curve[0]
        flipped = X.astype(float) * np.where(method.signs_, -1, 1)
        height = np.sqrt(np.mean(flipped**2))
        B = np.zeros((40, 60))
        B[:, :n_bits] = np.where(unpack(method.transform(X), n_bits), height, -height)
        expected = reference.circulant_objective(flipped, B, method.filter_.astype(float), 1.0) / 40
        np.testing.assert_allclose(curve[-1], expected, rtol=1e-3)


@pytest.mark.parametrize(("shape", "rank"), [((1, 1), 1), ((7, 30), 7), ((30, 7), 7), ((24, 24), 24), ((24, 24), 20)])
def test_the_nearest_rotation_is_the_polar_factor(shape, rank):
    rng = np.random.default_rng(shape[0])
    matrix = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    rotation = nearest_rotation(matrix.astype(np.float32)).astype(float)
    short = rotation if shape[0] <= shape[1] else rotation.T
    np.testing.assert_allclose(short @ short.T, np.eye(len(short)), atol=1e-5)
    if rank == min(shape):
        np.testing.assert_allclose(rotation, scipy.linalg.polar(matrix)[0], atol=1e-4)
    nuclear = np.linalg.svd(matrix, compute_uv=False).sum()
    np.testing.assert_allclose(np.sum(rotation * matrix), nuclear, rtol=1e-5)  # no rotation has more


def test_rotation_learning_is_the_sources_step_and_ends_no_worse_than_faiss():
    X, _ = digit_products(300)
    V = principal_components(as_rows(X), X.mean(axis=0, dtype=float), 24).coordinates
    start = nearest_rotation(np.random.default_rng(3).standard_normal((24, 24), dtype=np.float32))
    literal = start.astype(float)
    for _ in range(3):
        literal = reference.itq_step(V.astype(float), literal)
    np.testing.assert_allclose(learn_rotation(V, 24, 3, np.random.default_rng(3))[0], literal, atol=1e-3)
    rotation, curve = learn_rotation(V, 24, 20, np.random.default_rng(3))
    assert falls(curve)
    ours = ((np.abs(V @ rotation) - 1) ** 2).sum()
    np.testing.assert_allclose(ours / 300, curve[-1], rtol=1e-4)
    peer = faiss.ITQMatrix(24)  # its update is not the source's (docs/methods.md), so only the end is compared
    faiss.copy_array_to_vector(start.astype(np.float64).ravel(), peer.init_rotation)
    peer.max_iter = 20
    peer.train(V)
    assert ours <= ((np.abs(peer.apply(V)) - 1) ** 2).sum()


def test_itq_bits_are_those_of_the_rotated_components():
    X, _ = digit_products(200)
    method = METHODS["itq"](30, max_iter=5).fit(X)
    assert falls(method.objective_curve_)
    directions = method.projection_.T @ method.projection_
    np.testing.assert_allclose(directions, np.eye(30), atol=1e-3)
    np.testing.assert_allclose(method.decision_function(X), (X - X.mean(axis=0)) @ method.projection_, atol=1e-4)
    more_bits_than_rows = METHODS["itq"](64, max_iter=5).fit(X[:20])
    assert falls(more_bits_than_rows.objective_curve_)
    assert more_bits_than_rows.transform(X).shape == (200, 8)


def test_itq_says_what_it_would_take_at_the_papers_largest_size():
    class Rows:  # only the shape may be looked at
        shape = (150_000, 170_400)

    with pytest.raises(MemoryError, match=r"ITQ would take \d+\.\d GiB .*10000 components of 170400 dimensions"):
        METHODS["itq"](10_000)._train(Rows(), np.zeros(1), 10_000, np.random.default_rng(0))
    few = type("Rows", (), {"shape": (4_000, 170_400)})()
    with pytest.raises(MemoryError, match="max_memory is 8 GiB"):
        METHODS["itq"](10_000)._train(few, np.zeros(1), 10_000, np.random.default_rng(0))


def test_itq_in_groups():
    X, _ = digit_products(200)
    method = METHODS["kmeans+itq"](50, max_iter=5).fit(X)
    assert method.group_bits_.tolist() == [16, 17, 17]
    assert falls(method.objective_curve_)
    centred = (X - X.mean(axis=0, dtype=float)).astype(float)
    first = 0
    margins = method.decision_function(X)
    for group, bits in enumerate(method.group_bits_):
        own = method.labels_ == group
        expected = centred[:, own] @ method.weights_[own, :bits]
        np.testing.assert_allclose(margins[:, first : first + bits], expected, atol=1e-4)
        first += bits


def test_banks_are_projection_banks():
    X = vectors(60, 90)
    params = {"n_neighbors": 5, "max_iter": 3}
    banks = {
        "bpb": {"solver": "paper", "grouping": "kmeans"},
        "bpb-equal": {"solver": "paper", "grouping": "kmeans-equal"},
        "randst+bpb": {"solver": "paper", "grouping": "random"},
        "joint": {"solver": "joint"},
    }
    for name, settings in banks.items():
        expected = ProjectionBank(11, **params, **settings).fit(X)
        method = METHODS[name](11, **params).fit(X)
        np.testing.assert_array_equal(method.transform(X), expected.transform(X))
        np.testing.assert_array_equal(method.weights_, expected.weights_)
        assert method.model_bytes == 90 * 8 + 11 * 4


def labelled(rng, n, n_classes=5, n_features=300):
    """Vectors whose classes stand in few of many strong directions, and the classes."""
    labels = rng.integers(n_classes, size=n)
    hidden = 3 * rng.standard_normal((n, 40))
    hidden[:, :n_classes] += 4 * np.eye(n_classes)[labels]
    return (hidden @ rng.standard_normal((40, n_features)) + rng.standard_normal((n, n_features))).astype("f4"), labels


def test_discriminants_are_those_of_scikit_learn():
    values, labels = labelled(np.random.default_rng(5), 900, n_features=12)
    peer = LinearDiscriminantAnalysis(solver="eigen").fit(values, labels)
    found = discriminants(values, labels)
    assert found.shape == (12, 4)
    np.testing.assert_allclose(np.cos(scipy.linalg.subspace_angles(found, peer.scalings_[:, :4])), 1, atol=2e-3)


def test_rotated_discriminants_find_classes_that_components_do_not_tell():
    X, labels = labelled(np.random.default_rng(6), 700)
    known = np.where(np.arange(600) % 3, labels[100:], -1)

    def precision(y):
        method = METHODS["lda+itq"](32, n_components=60).fit(X[100:], y)
        rows = search(method, X[:100], method.transform(X[100:]), 20)[1]
        return precision_at_k(rows, labels[100:], labels[:100], 20)

    assert precision(labels[100:]) > precision(known) > precision(None) + 0.1
    assert precision(np.full(600, -1)) == precision(np.zeros(600)) == precision(None)
    with pytest.raises(ValueError, match=r"'y' parameter of DiscriminantITQ must be .*\(600,\)"):
        precision(labels)


@pytest.mark.parametrize("X", [np.zeros((6, 40)), np.repeat(vectors(3, 40), 2, axis=0), vectors(6, 40)])
@pytest.mark.parametrize("y", [[0, 0, 1, 1, 2, 2], range(6)])
def test_discriminants_of_classes_that_do_not_vary_or_hold_one_vector_are_finite(X, y):
    assert np.isfinite(METHODS["lda+itq"](16).fit(X, y).decision_function(X)).all()
