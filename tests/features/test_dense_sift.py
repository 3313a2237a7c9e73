"""Dense SIFT against a literal transcription, OpenCV, and invariants."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_sample_images

from projbank.features import DenseSIFT
from projbank.features.sift import OPENCV_SIZE_PER_BIN, WINDOW


def slow_descriptor(grey, x, y, bin_size):
    """One descriptor by the definition: every pixel votes for orientations and bins with linear weights."""
    height, width = grey.shape
    histogram = np.zeros((4, 4, 8))
    reach = math.ceil(2.5 * bin_size)  # no bin sees a pixel that is farther away
    for py in range(max(1, int(y) - reach), min(height - 1, int(y) + reach + 2)):
        for px in range(max(1, int(x) - reach), min(width - 1, int(x) + reach + 2)):
            dx = float(grey[py, px + 1]) - float(grey[py, px - 1])
            dy = float(grey[py - 1, px]) - float(grey[py + 1, px])
            magnitude, angle = math.hypot(dx, dy), math.atan2(dy, dx) % (2 * math.pi) * 4 / math.pi
            for i in range(4):
                for j in range(4):
                    across = 1 - abs(px - x - (j - 1.5) * bin_size) / bin_size
                    down = 1 - abs(py - y - (i - 1.5) * bin_size) / bin_size
                    if across > 0 and down > 0:
                        low, share = int(angle), angle - int(angle)
                        vote = magnitude * across * down * WINDOW[i, j]
                        histogram[i, j, low % 8] += vote * (1 - share)
                        histogram[i, j, (low + 1) % 8] += vote * share
    vector = histogram.ravel()
    contrast = np.linalg.norm(vector) / bin_size**2 / np.linalg.norm(WINDOW)
    vector = np.minimum(vector, 0.2 * np.linalg.norm(vector))
    return vector / np.linalg.norm(vector), contrast


def opencv_descriptors(grey, frames):
    """What OpenCV gives at the same places and scales, upright; rows of length 1."""
    points = [cv2.KeyPoint(x, y, size * OPENCV_SIZE_PER_BIN, 0) for x, y, size in frames.tolist()]
    vectors = cv2.SIFT_create().compute(grey, points)[1].astype(np.float64)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


@pytest.fixture(scope="module")
def photos():
    return [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in load_sample_images().images]


@pytest.mark.parametrize("bin_size", [2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(23, 31), (40, 17)])
def test_equals_the_slow_definition(bin_size, shape):
    grey = np.random.default_rng(bin_size).integers(0, 256, shape).astype(np.uint8)
    describer = DenseSIFT((bin_size,), step=5, root=False, smoothing=0, low_contrast="keep", n_jobs=1)
    frames, vectors = describer.compute(grey)
    assert len(frames) > 0
    for (x, y, size), vector in zip(frames, vectors, strict=True):
        assert size == bin_size
        expected, _ = slow_descriptor(grey, x, y, bin_size)
        np.testing.assert_allclose(vector, expected, atol=2e-5)


def test_contrast_threshold_is_the_documented_one():
    rng = np.random.default_rng(0)
    grey = (rng.normal(size=(30, 30)) * np.linspace(0.1, 20, 30) + 100).astype(np.float32)
    kwargs = {"bin_sizes": (3,), "step": 3, "root": False, "smoothing": 0, "contrast": 8.0}
    frames, kept = DenseSIFT(low_contrast="keep", **kwargs).compute(grey)
    strong = np.array([slow_descriptor(grey, x, y, 3)[1] >= 8 for x, y, _ in frames])
    assert 0 < strong.sum() < len(strong)
    dropped_frames, dropped = DenseSIFT(low_contrast="drop", **kwargs).compute(grey)
    np.testing.assert_array_equal(dropped, kept[strong])
    np.testing.assert_array_equal(dropped_frames, frames[strong])
    zeroed = DenseSIFT(low_contrast="zero", **kwargs).compute(grey)[1]
    np.testing.assert_array_equal(zeroed, np.where(strong[:, None], kept, 0))


@pytest.mark.parametrize("bin_size", [3, 4, 6, 8])
def test_points_the_same_way_as_opencv(photos, bin_size):
    for photo in photos:
        frames, vectors = DenseSIFT((bin_size,), step=8, root=False).compute(photo)
        cosines = (vectors * opencv_descriptors(photo, frames)).sum(axis=1)
        assert cosines.mean() > 0.9


def test_root_points_the_same_way_as_the_root_of_opencv(photos):
    frames, vectors = DenseSIFT(step=8).compute(photos[0])
    expected = opencv_descriptors(photos[0], frames)
    expected = np.sqrt(expected / expected.sum(axis=1, keepdims=True))
    assert (vectors * expected).sum(axis=1).mean() > 0.9


def test_root_is_the_root_of_the_l1_normalised_descriptor(photos):
    plain = DenseSIFT((4,), step=16, root=False).compute(photos[1])[1]
    root = DenseSIFT((4,), step=16, root=True).compute(photos[1])[1]
    np.testing.assert_allclose(root, np.sqrt(plain / plain.sum(axis=1, keepdims=True)), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(root, axis=1), 1, atol=1e-5)


def test_brightness_and_gain_do_not_matter(photos):
    grey = photos[0][:80, :90].astype(np.float32)
    a = DenseSIFT(low_contrast="keep").compute(grey)[1]
    b = DenseSIFT(low_contrast="keep").compute(0.5 * grey + 37)[1]
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_a_mirrored_image_gives_mirrored_descriptors(photos):
    grey = photos[0][100:161, 200:261]  # a symmetric grid: 61 pixels, step 4
    frames, vectors = DenseSIFT((4,), step=4, low_contrast="keep").compute(grey)
    mirrored = DenseSIFT((4,), step=4, low_contrast="keep").compute(grey[:, ::-1])[1]
    n = int(math.sqrt(len(frames)))
    turned = mirrored.reshape(n, n, 4, 4, 8)[:, ::-1, :, ::-1][..., (4 - np.arange(8)) % 8]
    np.testing.assert_allclose(turned.reshape(len(frames), 128), vectors, atol=1e-4)


def test_frames_lie_on_a_grid_inside_the_image():
    frames, vectors = DenseSIFT((3, 6), step=5, low_contrast="keep").compute(np.zeros((50, 33), np.uint8))
    assert len(frames) == len(vectors)
    for size in (3, 6):
        xs, ys = np.unique(frames[frames[:, 2] == size, 0]), np.unique(frames[frames[:, 2] == size, 1])
        assert set(np.diff(xs)) | set(np.diff(ys)) == {5}
        assert xs[0] - 1.5 * size >= 0
        assert xs[-1] + 1.5 * size <= 32
        assert ys[-1] + 1.5 * size <= 49


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (10, 10)])
def test_an_image_too_small_gives_no_descriptors(shape):
    frames, vectors = DenseSIFT((4, 6)).compute(np.ones(shape, np.uint8))
    assert frames.shape == (0, 3)
    assert vectors.shape == (0, 128)


def test_a_flat_image_gives_none_or_zeros():
    flat = np.full((40, 40), 7, np.uint8)
    assert len(DenseSIFT().compute(flat)[1]) == 0
    kept = DenseSIFT(low_contrast="keep").compute(flat)[1]
    assert len(kept) > 0
    assert not kept.any()


def test_colour_float_and_thread_count_agree(photos):
    image = load_sample_images().images[0][:60, :70]
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    images = [image, grey, grey.astype(np.float64), grey[:, ::-1][:, ::-1]]
    one = DenseSIFT(n_jobs=1).transform(images)
    four = DenseSIFT(n_jobs=4).fit_transform(images)
    for a, b in zip(one, four, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one[1], one[2])
    np.testing.assert_array_equal(one[1], one[3])
    assert abs(len(one[0]) - len(one[1])) <= 3  # rounding of grey


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"bin_sizes": ()}, "'bin_sizes' parameter of DenseSIFT must be a tuple"),
        ({"bin_sizes": (4, 1)}, r"'bin_sizes' parameter of DenseSIFT must be an int in the range \[2, inf\). Got 1"),
        ({"step": 0}, "'step' parameter of DenseSIFT"),
        ({"smoothing": -1}, "'smoothing' parameter of DenseSIFT"),
        ({"low_contrast": "hide"}, "'low_contrast' parameter of DenseSIFT must be one of 'drop', 'zero', 'keep'"),
    ],
)
def test_bad_parameters_are_named(params, text):
    with pytest.raises(ValueError, match=text):
        DenseSIFT(**params).fit()


@pytest.mark.parametrize("image", [np.zeros(5), np.zeros((4, 4, 2)), np.zeros((0, 3)), np.full((30, 30), np.nan)])
def test_bad_images_are_refused(image):
    with pytest.raises(ValueError, match="image"):
        DenseSIFT().compute(image)


def test_clones_with_its_parameters():
    describer = clone(DenseSIFT((5,), step=3, smoothing=0.2))
    assert describer.get_params()["bin_sizes"] == (5,)
    assert describer.step == 3
