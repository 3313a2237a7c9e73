"""The fixed-dimensional encoding against a literal transcription of MUVERA, and as an estimator."""

import doctest
import hashlib
import pickle

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import projbank.text.encoding
from projbank.models.file import ModelFileError, load, read_metadata
from projbank.text import FixedDimensionalEncoding
from tests.text.data import stacked, texts

SIZES = (40, 1, 7, 130, 2, 65)


def literal(encoding, tokens, document):
    """Section 2 of the paper, token by token and bucket by bucket, in float64."""
    planes, projections = encoding.planes_.astype(float), encoding.projections_.astype(float)
    n_repetitions, _, n_planes = planes.shape
    parts = []
    for r in range(n_repetitions):
        partition = [[int((x - encoding.center_.astype(float)) @ plane > 0) for plane in planes[r].T] for x in tokens]
        for number in range(2**n_planes):
            bucket = [number >> j & 1 for j in range(n_planes)]
            inside = [x for x, code in zip(tokens, partition, strict=True) if code == bucket]
            if not inside and document:
                differing = [sum(a != b for a, b in zip(code, bucket, strict=True)) for code in partition]
                numbers = [sum(bit << j for j, bit in enumerate(code)) for code in partition]
                inside = [tokens[min(range(len(tokens)), key=lambda i: (differing[i], numbers[i], i))]]
            total = np.sum(inside, axis=0) if inside else np.zeros(len(planes[r]))
            parts.append((total / len(inside) if document else total) @ projections[r])
    return np.concatenate(parts)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("n_buckets", "n_projected", "n_repetitions"), [(1, 3, 2), (8, 5, 3), (64, 1, 2)])
def test_encodings_equal_the_literal_transcription(n_buckets, n_projected, n_repetitions, center):
    documents = texts(SIZES)
    encoding = FixedDimensionalEncoding(n_buckets, n_projected, n_repetitions, center=center).fit(documents)
    assert encoding.n_dims_ == n_buckets * n_projected * n_repetitions
    for transform, document in ((encoding.transform, True), (encoding.transform_queries, False)):
        expected = [literal(encoding, bag.astype(float), document) for bag in documents]
        found = transform(documents)
        assert found.shape == (len(documents), encoding.n_dims_)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_bits_are_those_recorded(n_jobs):
    """Whole numbers and halves: sums are exact, so the hash holds on any machine."""
    documents = np.split(np.random.default_rng(0).integers(-9, 10, (200, 12)), [30, 31, 90])
    encoding = FixedDimensionalEncoding(16, 4, 6, n_jobs=n_jobs).fit(documents)
    encoded = [encoding.transform(documents), encoding.transform_queries(documents)]
    digest = hashlib.blake2b(np.concatenate(encoded).astype("<f4").tobytes(), digest_size=12).hexdigest()
    assert digest == "16dae4793efc7ee6c9bb9a5b"


def test_what_is_drawn_is_what_the_paper_draws():
    documents = texts(SIZES, width=30)
    encoding = FixedDimensionalEncoding(16, 20, 50, random_state=3).fit(documents)
    assert np.unique(np.abs(encoding.projections_)).tolist() == [np.float32(1 / np.sqrt(20))]
    assert abs((encoding.projections_ > 0).mean() - 0.5) < 0.02
    assert abs(encoding.planes_.mean()) < 0.05
    assert abs(encoding.planes_.std() - 1) < 0.05
    np.testing.assert_allclose(encoding.center_, np.concatenate(documents).mean(axis=0), atol=1e-6)
    assert not FixedDimensionalEncoding(center=False).fit(documents).center_.any()


def test_inner_products_of_many_repetitions_approach_maxsim_of_a_partition():
    """Tokens that are equal or orthogonal: equal ones share a bucket in every repetition, so the products tell."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((32, 32)))[0].astype(np.float32)
    documents = [basis[rng.choice(32, 12, replace=False)] for _ in range(40)]
    queries = [document[:6] for document in documents]
    encoding = FixedDimensionalEncoding(128, 16, 30).fit(documents)
    products = encoding.transform_queries(queries) @ encoding.transform(documents).T
    maxsim = np.array([[(q @ d.T).max(axis=1).sum() for d in documents] for q in queries])
    assert (products.argmax(axis=1) == np.arange(40)).all()
    assert np.corrcoef(products.ravel(), maxsim.ravel())[0, 1] > 0.8


@pytest.mark.parametrize("seed", [0, 1])
def test_bits_depend_neither_on_threads_nor_on_the_form_nor_on_other_texts(seed):
    documents = texts(SIZES, seed=seed)
    one = FixedDimensionalEncoding(n_repetitions=5, random_state=seed, n_jobs=1).fit(documents)
    many = clone(one).set_params(n_jobs=4).fit(stacked(documents))
    for method in ("transform", "transform_queries"):
        encoded = getattr(one, method)(documents)
        np.testing.assert_array_equal(encoded, getattr(many, method)(stacked(documents)))
        np.testing.assert_array_equal(encoded[3:4], getattr(many, method)(documents[3:4]))
        fortran = [np.asfortranarray(bag.astype(np.float64)) for bag in documents]
        np.testing.assert_array_equal(encoded, getattr(many, method)(fortran))


def test_the_seed_decides():
    documents = texts(SIZES)
    for seed, same in ((0, True), (None, False)):
        one, two = (FixedDimensionalEncoding(random_state=seed).fit(documents).planes_ for _ in range(2))
        assert np.array_equal(one, two) == same


def test_a_text_without_tokens_gives_zeros_and_a_warning():
    documents = [*texts((5, 9)), np.zeros((0, 24))]
    encoding = FixedDimensionalEncoding().fit(documents)
    for method in (encoding.transform, encoding.transform_queries):
        with pytest.warns(UserWarning, match=r"1 of 3 texts have no tokens \(first: 2\)"):
            encoded = method(documents)
        assert not encoded[2].any()
        assert encoded[:2].any(axis=1).all()
    assert encoding.transform([]).shape == (0, encoding.n_dims_)


def test_saved_and_loaded_it_encodes_alike(tmp_path):
    documents = texts(SIZES)
    encoding = FixedDimensionalEncoding(8, 4, 3, center=False, random_state=5).fit(documents)
    encoding.save(tmp_path / "encoding.safetensors")
    loaded = load(tmp_path / "encoding.safetensors")
    assert loaded.get_params() == encoding.get_params()
    for again in (loaded, pickle.loads(pickle.dumps(encoding))):
        np.testing.assert_array_equal(again.transform(documents), encoding.transform(documents))
        np.testing.assert_array_equal(again.transform_queries(documents), encoding.transform_queries(documents))


@pytest.mark.parametrize(
    "change",
    [
        {"center_": np.zeros(23, np.float32)},
        {"planes_": np.zeros((2, 24, 3), np.float32)},
        {"planes_": np.zeros((3, 24), np.float32)},
        {"projections_": np.zeros((3, 24, 4))},
    ],
)
def test_damaged_files_are_refused(tmp_path, change):
    path = tmp_path / "encoding.safetensors"
    FixedDimensionalEncoding(8, 4, 3).fit(texts(SIZES)).save(path)
    metadata, arrays = read_metadata(path), load_file(path)
    header = {"format": "projbank", "version": "2", "class": metadata["class"], "params": "{}"}  # had no checksum
    save_file(arrays | change, path, header)
    with pytest.raises(ModelFileError, match=r"encoding\.safetensors: damaged .*arrays"):
        load(path)


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("n_buckets", 12, "must be a power of 2. Got 12"),
        ("n_buckets", 0, r"must be an int in the range \[1, inf\). Got 0"),
        ("n_projected", 0, "Got 0"),
        ("n_repetitions", 1.5, "Got 1.5"),
        ("center", "yes", "must be a bool. Got 'yes'"),
        ("random_state", -1, "Got -1"),
    ],
)
def test_parameters_out_of_range_are_named(parameter, value, words):
    with pytest.raises(ValueError, match=rf"The '{parameter}' parameter of FixedDimensionalEncoding .*{words}"):
        FixedDimensionalEncoding(**{parameter: value}).fit(texts((5,)))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.zeros((4, 24)), r"X must be a list of \(n_i, k\) arrays, or \(stacked, offsets\)"),
        ([np.zeros((4, 23))], r"X\[0\] must have 24 columns. Got 23"),
        ([np.zeros((4, 24)), np.full((2, 24), np.nan)], r"X\[1\] contains NaN at row 0, column 0"),
        ((np.zeros((4, 24)), np.array([0, 5])), "offsets must rise from 0 to the 4 rows"),
        ([np.full((2, 24), 3e38)], r"X\[0\] holds tokens too large"),
        ([np.full((2, 24), "a")], r"X\[0\] must be an \(n_i, k\) array of numbers"),
    ],
)
def test_bad_tokens_are_named(X, words):
    encoding = FixedDimensionalEncoding().fit(texts(SIZES))
    for method in (encoding.transform, encoding.transform_queries):
        with pytest.raises(ValueError, match=words):
            method(X)


def test_there_must_be_tokens_and_a_fit():
    for nothing in ([], [np.zeros((0, 3))], [np.zeros((3, 0))]):
        with pytest.raises(ValueError, match="X must hold at least one token"):
            FixedDimensionalEncoding().fit(nothing)
    with pytest.raises(NotFittedError):
        FixedDimensionalEncoding().transform(texts((3,)))


def test_it_works_as_an_estimator_does():
    documents = texts(SIZES)
    encoding = FixedDimensionalEncoding(8, 4, 3)
    assert clone(encoding).get_params() == encoding.get_params()
    assert encoding.fit(documents).n_features_in_ == 24
    piped = make_pipeline(FixedDimensionalEncoding(8, 4, 3), Normalizer()).fit_transform(documents)
    np.testing.assert_allclose(np.linalg.norm(piped, axis=1), 1, atol=1e-5)


def test_the_example_runs():
    assert doctest.testmod(projbank.text.encoding) == (0, 5)
