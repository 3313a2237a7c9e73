"""Dense trajectories on synthetic motion whose answer is known, and against slow sums."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from projbank.features import DenseTrajectories
from projbank.features.trajectories import _moves
from projbank.kernels import features as kernels

STEPS, HOG, HOF, MBHX, MBHY = slice(0, 30), slice(30, 126), slice(126, 234), slice(234, 330), slice(330, 426)
N_FRAMES = 18


def texture(height, width, seed=0):
    """Smooth noise, which optical flow can follow."""
    noise = np.random.default_rng(seed).normal(size=(height, width)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 1.5)
    return cv2.normalize(smooth, None, 0, 255, cv2.NORM_MINMAX)


def shifted(image, dx, dy, shape):
    """A window of the image that moves by (-dx, -dy), so that what is seen moves by (dx, dy)."""
    matrix = np.float32([[1, 0, dx - 40], [0, 1, dy - 40]])
    return cv2.warpAffine(image, matrix, (shape[1], shape[0]), flags=cv2.INTER_LINEAR)


def pan(dx, dy, shape=(96, 112)):
    image = texture(shape[0] + 80, shape[1] + 80)
    return [shifted(image, dx * t, dy * t, shape).astype(np.uint8) for t in range(N_FRAMES)]


def inner(places, shape=(96, 112), margin=26):
    """Tracks whose volumes do not touch the border, where flow is unreliable."""
    x, y = places[:, 0], places[:, 1]
    return (x > margin) & (x < shape[1] - margin) & (y > margin) & (y < shape[0] - margin)


def by_orientation(part, bins=8):
    """Votes per orientation, over all cells of a descriptor's part."""
    return part.reshape(len(part), 12, bins).sum(axis=1)


@pytest.mark.parametrize("velocity", [(2.0, 0.0), (0.0, -1.5), (1.5, 1.5)])
def test_a_translating_texture_gives_straight_tracks_and_one_flow_direction(velocity):
    places, described = DenseTrajectories(n_scales=1).compute(pan(*velocity))
    described = described[inner(places)]
    assert len(described) > 20
    expected = np.tile(np.array(velocity) / np.hypot(*velocity) / 15, 15)
    np.testing.assert_allclose(np.median(described[:, STEPS], axis=0), expected, atol=0.005)
    votes = by_orientation(described[:, HOF], 9).mean(axis=0)
    assert votes.argmax() == round(np.arctan2(velocity[1], velocity[0]) / (np.pi / 4)) % 8
    assert votes.max() > 0.8 * votes.sum()


def test_under_a_camera_pan_motion_boundaries_vanish_where_flow_does_not():
    places, described = DenseTrajectories(n_scales=1).compute(pan(2.0, 1.0))
    described = described[inner(places)]
    assert np.linalg.norm(described[:, HOF], axis=1).mean() > 0.95
    assert np.linalg.norm(described[:, MBHX], axis=1).mean() < 0.15
    assert np.linalg.norm(described[:, MBHY], axis=1).mean() < 0.15


def test_an_object_that_moves_before_a_pan_has_motion_boundaries():
    ground, thing = pan(1.0, 0.0, (96, 112)), texture(40, 40, seed=5).astype(np.uint8)
    for t, frame in enumerate(ground):
        frame[28:68, 20 + 3 * t : 60 + 3 * t] = thing
    places, described = DenseTrajectories(n_scales=1).compute(ground)
    edge = described[inner(places)]
    assert np.linalg.norm(edge[:, MBHX], axis=1).max() > 0.9


def test_a_rotating_disc_has_tangential_flow_and_constant_boundaries():
    """Turning by w about c: flow (-w (y - cy), w (x - cx)), so du/dy = -w and dv/dx = w everywhere."""
    size, image = 144, texture(144, 144)
    middle = (size - 1) / 2
    frames = []
    for t in range(N_FRAMES):
        matrix = cv2.getRotationMatrix2D((middle, middle), -4.0 * t, 1.0)  # OpenCV turns the other way, y being down
        frames.append(cv2.warpAffine(image, matrix, (size, size)).astype(np.uint8))
    places, described = DenseTrajectories(n_scales=1).compute(frames)
    from_middle = places[:, :2] - middle
    radius = np.linalg.norm(from_middle, axis=1)
    ring = (radius > 15) & (radius < 35)
    assert ring.sum() > 30
    assert by_orientation(described[ring][:, MBHX]).mean(axis=0).argmax() == 6  # du/dy < 0
    assert by_orientation(described[ring][:, MBHY]).mean(axis=0).argmax() == 0  # dv/dx > 0
    first = described[ring][:, STEPS].reshape(-1, 15, 2).sum(axis=1)  # the chord, square to the radius at its middle
    cosine = (first * from_middle[ring]).sum(axis=1) / np.linalg.norm(first, axis=1) / radius[ring]
    assert np.abs(cosine).mean() < 0.1
    turn = first[:, 0] * from_middle[ring][:, 1] - first[:, 1] * from_middle[ring][:, 0]
    assert (turn < 0).all()


def test_gradient_part_of_vertical_stripes_is_horizontal():
    stripes = np.tile((127 + 120 * np.sin(np.arange(200) / 3)).astype(np.float32), (120, 1))
    faint = texture(120, 200) * 0.05  # something to follow along the stripes
    frames = [
        (stripes[:96, 2 * t : 2 * t + 112] + faint[:96, 2 * t : 2 * t + 112]).clip(0, 255) for t in range(N_FRAMES)
    ]
    described = DenseTrajectories(n_scales=1).compute([frame.astype(np.uint8) for frame in frames])[1]
    votes = by_orientation(described[:, HOG]).mean(axis=0)
    assert votes[[0, 4]].sum() > 0.9 * votes.sum()


def test_a_still_video_has_no_tracks():
    frame = texture(64, 64).astype(np.uint8)
    places, described = DenseTrajectories().compute([frame] * 20)
    assert places.shape == (0, 4)
    assert described.shape == (0, 426)


@pytest.mark.parametrize("n_frames", [0, 1, 15])
def test_a_video_shorter_than_a_track_has_none(n_frames):
    assert DenseTrajectories().compute(pan(2.0, 0.0)[:n_frames])[1].shape == (0, 426)
    assert len(DenseTrajectories().compute(pan(2.0, 0.0)[:16])[1]) > 0


def test_frames_smaller_than_a_patch_have_none():
    assert DenseTrajectories().compute([np.zeros((20, 200), np.uint8)] * 17)[1].shape == (0, 426)


def test_static_lost_and_jumping_tracks_are_dropped():
    t = np.arange(16, dtype=np.float32)
    still = np.stack([0.1 * t, 0 * t], axis=1)
    moving = np.stack([2 * t, t], axis=1)
    lost = np.stack([20 * t, 0 * t], axis=1)
    jumping = still.copy()
    jumping[8:] += 30
    fast = np.stack([9 * t * (t < 8) + 72 * (t >= 8), 0 * t], axis=1)  # long way, no step above 20
    kept = _moves(np.stack([still, moving, lost, jumping, fast]))
    np.testing.assert_array_equal(kept, [False, True, False, False, True])


def test_scales_are_a_root_of_two_apart_and_an_iterator_will_do():
    frames = pan(3.0, 0.0)
    places, described = DenseTrajectories(n_scales=8).compute(iter(frames))
    np.testing.assert_allclose(np.unique(places[:, 2]), 2 ** (np.arange(4) / 2), rtol=1e-6)  # 96 px: 96, 68, 48, 34
    assert set(np.unique(places[:, 3])) == {15, 16, 17}
    again = DenseTrajectories(n_scales=8, n_jobs=3).fit_transform([frames, frames[:4], frames])
    assert [len(part) for part in again] == [len(described), 0, len(described)]
    np.testing.assert_array_equal(again[2], described)
    assert np.isfinite(described).all()


def test_tracks_have_the_parts_lengths():
    described = DenseTrajectories(n_scales=1).compute(pan(2.0, 0.0))[1]
    way = np.linalg.norm(described[:, STEPS].reshape(-1, 15, 2), axis=2).sum(axis=1)
    np.testing.assert_allclose(way, 1, atol=1e-4)
    for part in (HOG, HOF, MBHX, MBHY):
        assert (np.linalg.norm(described[:, part], axis=1) <= 1 + 1e-5).all()


def slow_histogram(magnitudes, angles, min_flow):
    """Histogram of all pixels given, by the definition: 8 + 9 + 8 + 8 bins."""
    out = np.zeros(33)
    for field, start in enumerate((0, 8, 17, 25)):
        for magnitude, angle in zip(magnitudes[field].ravel(), angles[field].ravel(), strict=True):
            if field == 1 and magnitude < min_flow:
                out[16] += 1
                continue
            place = angle * 4 / np.pi
            out[start + int(place) % 8] += magnitude * (1 - place % 1)
            out[start + (int(place) + 1) % 8] += magnitude * (place % 1)
    return out


def test_cells_equal_slow_sums():
    rng = np.random.default_rng(0)
    magnitudes = rng.uniform(0, 3, (4, 14, 19)).astype(np.float32)
    angles = rng.uniform(0, 2 * np.pi, (4, 14, 19)).astype(np.float32)
    integral = np.full((15, 20, 33), np.nan)
    starts = np.array([0, 8, 17, 25])
    kernels.integral_histograms(magnitudes, angles, starts, 16, np.float32(0.8), integral)
    corners, times = np.array([[0, 0], [11, 6], [3, 2]]), np.array([0, 2, 1])
    histograms = np.ones((3, 3, 4, 33), np.float32)
    kernels.add_cells(integral, corners, 4, times, histograms)
    for i, (x, y) in enumerate(corners):
        for cell in range(4):
            left, top = x + 4 * (cell % 2), y + 4 * (cell // 2)
            window = (slice(None), slice(top, top + 4), slice(left, left + 4))
            expected = 1 + slow_histogram(magnitudes[window], angles[window], 0.8)
            np.testing.assert_allclose(histograms[i, times[i], cell], expected, atol=1e-4)
        others = [t for t in range(3) if t != times[i]]
        assert (histograms[i, others] == 1).all()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"step": 0}, "'step' parameter of DenseTrajectories"),
        ({"length": 16}, "'length' parameter of DenseTrajectories must be a multiple of 3. Got 16"),
        ({"patch_size": 31}, "'patch_size' parameter of DenseTrajectories must be even. Got 31"),
    ],
)
def test_bad_parameters_are_named(params, text):
    with pytest.raises(ValueError, match=text):
        DenseTrajectories(**params).fit()


def test_frames_must_have_one_shape():
    with pytest.raises(ValueError, match=r"frame 1 must have the first frame's shape \(40, 40\). Got \(40, 41\)"):
        DenseTrajectories().compute([np.zeros((40, 40), np.uint8), np.zeros((40, 41), np.uint8)])
