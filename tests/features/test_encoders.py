"""Fisher vector and VLAD against scikit-image, scikit-learn and naive loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from skimage.feature import fisher_vector
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from projbank.features import VLAD, FisherVector
from projbank.features.encoder import nearest
from projbank.features.gmm import DiagonalMixture, fit_mixture
from projbank.models.file import ModelFileError, load
from projbank.threads import kmeans


def make_bags(seed=0, k=6, sizes=(200, 1, 37, 600, 513)):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(8, k)) * 3
    return [(centres[rng.integers(0, 8, n)] + rng.normal(size=(n, k))).astype(np.float32) for n in sizes]


def power_and_length(vector, alpha=0.5):
    vector = np.sign(vector) * np.abs(vector) ** alpha
    return vector / np.linalg.norm(vector)


def as_sklearn(encoder):
    """The encoder's mixture as scikit-learn's."""
    mixture = GaussianMixture(len(encoder.weights_), covariance_type="diag")
    mixture.weights_ = encoder.weights_.astype(np.float64) / encoder.weights_.sum(dtype=np.float64)
    mixture.means_, mixture.covariances_ = encoder.means_.astype(np.float64), encoder.variances_.astype(np.float64)
    mixture.precisions_cholesky_ = 1 / np.sqrt(mixture.covariances_)
    return mixture


@pytest.mark.parametrize("seed", [0, 1])
def test_fisher_vector_equals_scikit_image(seed):
    bags = make_bags(seed)
    encoder = FisherVector(5, random_state=seed).fit(bags)
    for bag, vector in zip(bags, encoder.transform(bags), strict=True):
        theirs = fisher_vector(bag.astype(np.float64), as_sklearn(encoder), improved=False)
        theirs = theirs[5:]  # they begin with K weight terms
        theirs[30:] *= -1  # and turn the sign of the variances
        np.testing.assert_allclose(vector, power_and_length(theirs), atol=2e-4)


def test_fisher_vector_equals_naive_loops():
    bags = make_bags(3, sizes=(40, 7))
    encoder = FisherVector(3, alpha=0.3).fit(bags)
    w, m, v = (array.astype(np.float64) for array in (encoder.weights_, encoder.means_, encoder.variances_))
    for bag, vector in zip(bags, encoder.transform(bags), strict=True):
        means, variances = np.zeros_like(m), np.zeros_like(m)
        for x in bag.astype(np.float64):
            log_joint = np.log(w) - 0.5 * ((x - m) ** 2 / v + np.log(2 * np.pi * v)).sum(axis=1)
            posterior = np.exp(log_joint - logsumexp(log_joint))
            for j in range(3):
                means[j] += posterior[j] * (x - m[j]) / np.sqrt(v[j]) / np.sqrt(w[j])
                variances[j] += posterior[j] * ((x - m[j]) ** 2 / v[j] - 1) / np.sqrt(2 * w[j])
        expected = power_and_length(np.concatenate([means.ravel(), variances.ravel()]), 0.3)
        np.testing.assert_allclose(vector, expected, atol=2e-4)


@pytest.mark.parametrize("intra", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_vlad_equals_naive_loops(intra, alpha):
    bags = make_bags(1)
    encoder = VLAD(7, intra=intra, alpha=alpha).fit(bags)
    for bag, vector in zip(bags, encoder.transform(bags), strict=True):
        sums = np.zeros((7, 6))
        for x in bag:
            j = np.argmin(((x - encoder.centres_) ** 2).sum(axis=1))
            sums[j] += x.astype(np.float64) - encoder.centres_[j]
        if intra:
            sums = np.array([part / (np.linalg.norm(part) or 1) for part in sums])
        np.testing.assert_allclose(vector, power_and_length(sums.ravel(), alpha), atol=2e-4)


def test_fisher_vector_of_the_papers_size_has_means_then_variances():
    rng = np.random.default_rng(0)
    X = np.sqrt(rng.dirichlet(np.full(128, 0.3), 1200)).astype(np.float32)
    encoder = FisherVector(250, max_iter=2).fit(X)
    vector = encoder.transform([X[:300]])[0]
    assert vector.shape == (64_000,)
    mixture = DiagonalMixture(encoder.weights_, encoder.means_, encoder.variances_)
    total = mixture.statistics(X[:300])
    moved = total.first - mixture.means * total.mass[:, None]
    signs = np.sign(moved[np.abs(moved) > 1e-3])
    np.testing.assert_array_equal(np.sign(vector[:32_000].reshape(250, 128)[np.abs(moved) > 1e-3]), signs)


@pytest.mark.parametrize("encoder", [FisherVector(4, n_pca=3), VLAD(4, n_pca=3)])
def test_pca_first_is_the_same_as_scikit_learns_pca(encoder):
    bags = make_bags(2)
    fitted = clone(encoder).fit(bags)
    pca = PCA(3, svd_solver="covariance_eigh").fit(np.concatenate(bags).astype(np.float64))
    reduced = [((bag - pca.mean_) @ pca.components_.T).astype(np.float32) for bag in bags]
    direct = clone(encoder).set_params(n_pca=None).fit(reduced)
    assert fitted.transform(bags).shape[1] == direct.transform(reduced).shape[1] == fitted.n_dims_
    np.testing.assert_allclose(fitted.transform(bags), direct.transform(reduced), atol=5e-3)


ENCODERS = [FisherVector(4), VLAD(4), VLAD(4, intra=True, n_pca=2), FisherVector(4, n_pca=5)]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_stacked_and_list_agree_whatever_the_threads(encoder):
    bags = make_bags()
    offsets = np.cumsum([0, *map(len, bags)])
    one = clone(encoder).set_params(n_jobs=1).fit(bags)
    many = clone(encoder).set_params(n_jobs=5).fit((np.concatenate(bags), offsets))
    np.testing.assert_array_equal(one.transform(bags), many.transform((np.concatenate(bags), offsets)))
    np.testing.assert_array_equal(one.transform(bags), many.transform([bag.astype(np.float64) for bag in bags]))
    assert one.transform(bags).dtype == np.float32
    large = [np.concatenate(bags * 3)]  # one image of several blocks
    np.testing.assert_array_equal(one.transform(large), many.transform(large))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_an_image_without_descriptors_gives_zeros_and_a_warning(encoder):
    bags = make_bags()
    encoder = clone(encoder).fit(bags)
    with pytest.warns(UserWarning, match=r"2 of 4 images have no descriptors \(first: 1\)"):
        vectors = encoder.transform([bags[0], bags[0][:0], bags[2], bags[2][:0]])
    np.testing.assert_array_equal(np.linalg.norm(vectors, axis=1) > 0, [True, False, True, False])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors[[0, 2]], axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_constant_dimensions_and_copies_never_give_nan(encoder):
    bags = make_bags()
    for bag in bags:
        bag[:, 2] = 1.5
        bag[::2] = bag[0]
    vectors = clone(encoder).fit(bags).transform([*bags, np.zeros((3, 6), np.float32)])
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_far_descriptor_never_gives_nan(encoder):
    bags = make_bags()
    vectors = clone(encoder).fit(bags).transform([np.full((2, 6), 1e4, np.float32)])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_images_give_no_rows_and_absurd_descriptors_are_refused():
    encoder = FisherVector(2).fit(make_bags())
    assert encoder.transform([]).shape == (0, 24)
    with pytest.raises(ValueError, match="too large to be encoded"):
        encoder.transform([np.full((3, 6), 1e25)])
    for wild in (FisherVector(2), VLAD(2)):
        with pytest.raises(ValueError, match="too large to learn from"):
            wild.fit(np.random.default_rng(0).normal(size=(50, 6)) * 1e25)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_saved_encoder_gives_the_same_bits(encoder, tmp_path):
    bags = make_bags()
    encoder = clone(encoder).fit(bags)
    encoder.save(tmp_path / "encoder.safetensors")
    loaded = load(tmp_path / "encoder.safetensors")
    assert loaded.get_params() == encoder.get_params()
    np.testing.assert_array_equal(loaded.transform(bags), encoder.transform(bags))


def test_a_file_whose_arrays_do_not_fit_is_refused(tmp_path):
    encoder = FisherVector(4).fit(make_bags())
    encoder.means_ = encoder.means_[:3]
    encoder.save(tmp_path / "bad.safetensors")
    with pytest.raises(ModelFileError, match=r"bad.safetensors: damaged model file \(weights, means and variances"):
        load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros((5, 6)), "X must be a list"),
        ([np.zeros((5, 6)), np.zeros((5, 7))], r"X\[1\] must have 6 columns. Got 7"),
        ([np.zeros(6)], "X must be a list"),
        ([np.full((5, 6), np.nan)], r"X\[0\] contains NaN at row 0, column 0"),
        ((np.zeros((5, 6)), np.array([0, 4])), "offsets must rise from 0 to the 5 rows"),
        ((np.zeros((5, 6)), np.array([0.0, 5.0])), "offsets must be one or more ints"),
    ],
)
def test_bad_bags_are_refused(X, text):
    with pytest.raises(ValueError, match=text):
        FisherVector(2).fit(make_bags()).transform(X)


def test_too_few_descriptors_for_the_codebook():
    with pytest.raises(ValueError, match=r"at least as many descriptors as the codebook has entries, 9. Got 5"):
        VLAD(9).fit(np.zeros((5, 3)))


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        (FisherVector(0), "n_components"),
        (VLAD(2.5), "n_clusters"),
        (VLAD(2, alpha=0), "alpha"),
        (FisherVector(2, n_pca=7), "n_pca"),
        (FisherVector(2, max_iter=0), "max_iter"),
    ],
)
def test_bad_parameters_are_named(encoder, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of {type(encoder).__name__} must be"):
        encoder.fit(make_bags())


def test_a_limited_sample_is_drawn_from_all_bags():
    bags = [np.full((50, 2), i, np.float32) + np.random.default_rng(i).normal(size=(50, 2)) * 0.01 for i in range(6)]
    centres = VLAD(6, max_descriptors=120, random_state=3).fit(bags).centres_
    np.testing.assert_allclose(np.sort(centres[:, 0]), np.arange(6), atol=0.02)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_likelihood_never_falls_and_ends_at_scikit_learns(seed):
    X = np.concatenate(make_bags(seed, sizes=(900, 900)))
    centres = kmeans(X, 8, 0, 25)
    fitted = fit_mixture(X, centres, max_iter=60, tol=0, min_variance=1e-6)
    assert len(fitted.log_likelihoods) > 2
    assert np.diff(fitted.log_likelihoods).min() > -1e-5
    theirs = GaussianMixture(8, covariance_type="diag", means_init=centres, max_iter=500, tol=1e-9).fit(X)
    assert fitted.log_likelihoods[-1] > theirs.score(X) - 0.01


def test_statistics_equal_scikit_learns_posteriors():
    X = np.concatenate(make_bags(6, sizes=(1300,)))
    encoder = FisherVector(5).fit(X)
    mixture = DiagonalMixture(encoder.weights_, encoder.means_, encoder.variances_)
    total = mixture.statistics(X)
    posteriors = as_sklearn(encoder).predict_proba(X)
    np.testing.assert_allclose(total.mass, posteriors.sum(axis=0), rtol=1e-4)
    np.testing.assert_allclose(total.first, posteriors.T @ (X - mixture.centre), atol=0.02)
    np.testing.assert_allclose(total.log_likelihood / len(X), as_sklearn(encoder).score(X), atol=1e-4)


def test_kmeans_is_reproducible_and_nearest_is_exact():
    X = np.concatenate(make_bags(7))
    centres = kmeans(X, 9, 4, 25)
    np.testing.assert_array_equal(centres, kmeans(X, 9, 4, 25))
    distances = ((X[:, None].astype(np.float64) - centres) ** 2).sum(axis=2)
    chosen = np.take_along_axis(distances, nearest(X, centres)[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-4)
