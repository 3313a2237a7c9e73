"""SIFT at interest points: OpenCV's own numbers, normalised."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from projbank.features import SIFT


@pytest.fixture(scope="module")
def photo():
    return cv2.cvtColor(load_sample_image("flower.jpg"), cv2.COLOR_RGB2GRAY)[100:300, 200:440]


def test_gives_opencvs_points_and_directions(photo):
    points, expected = cv2.SIFT_create().detectAndCompute(photo, None)
    frames, vectors = SIFT(root=False).compute(photo)
    np.testing.assert_allclose(frames[:, :2], [point.pt for point in points], atol=1e-4)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_root_sift_has_length_one_and_hellinger_products(photo):
    _, plain = cv2.SIFT_create().detectAndCompute(photo, None)
    root = SIFT().compute(photo)[1]
    share = plain / plain.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        root[:5] @ root[5:9].T, np.sqrt(share[:5, None] * share[None, 5:9]).sum(axis=2), atol=1e-5
    )
    np.testing.assert_allclose(np.linalg.norm(root, axis=1), 1, atol=1e-5)


def test_strongest_points_only(photo):
    assert len(SIFT(20).compute(photo)[1]) in (20, 21)  # OpenCV keeps both orientations of the last point
    assert len(SIFT().compute(photo)[1]) > 21


def test_a_blank_image_has_no_points():
    frames, vectors = SIFT().compute(np.zeros((50, 50), np.uint8))
    assert frames.shape == (0, 3)
    assert vectors.shape == (0, 128)


def test_list_of_images_in_order(photo):
    images = [photo, np.zeros((9, 9), np.uint8), photo.astype(np.float32)]
    described = SIFT(n_jobs=3).fit_transform(images)
    assert [len(vectors) > 0 for vectors in described] == [True, False, True]
    np.testing.assert_array_equal(described[0], described[2])


def test_bad_parameter_is_named():
    with pytest.raises(ValueError, match=r"'n_features' parameter of SIFT must be an int in the range \[0, inf\)"):
        SIFT(-1).fit()
