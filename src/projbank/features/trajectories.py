"""Dense trajectories: points followed through a video by optical flow, described along their way (Wang et al. 2011)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.features.images import Descriptor, grey_bytes
from projbank.features.tracks import SCALE_RATIO, Tracks
from projbank.params import check_int, check_positive, reject

HOG, HOF, MBHX, MBHY = slice(0, 8), slice(8, 17), slice(17, 25), slice(25, 33)
"""Bins of the four histograms in a cell; the last of HOF counts what does not move."""
FLOORS = {"hog": 1.0, "hof": 0.05, "mbhx": 0.05, "mbhy": 0.05}
"""Mean magnitude per pixel (grey levels, pixels) below which a part fades instead of being blown up to length 1."""
MIN_DEVIATION = 3**0.5
"""Tracks whose coordinates both deviate less (pixels) are static."""
MAX_DEVIATION = 50.0
"""Tracks that deviate more have been lost."""
MAX_STEP = 20.0
"""A single step longer than this (pixels) that is also most of the way is a jump."""
MAX_SHARE = 0.7
"""Share of the whole way that makes a long step a jump."""


class DenseTrajectories(Descriptor):
    """Trajectory descriptors of a video: 426 numbers each at the default length.

    At each of up to 8 spatial scales (1/sqrt(2) apart, as far as a patch fits in), points on a grid are followed for 15
    frames by median-filtered optical flow (Farneback's, by OpenCV). Points are set anew where no track passes, except
    in even regions. Static tracks and those that jump are dropped. A track gives, each part of length 1:

    - 30 numbers: its steps, divided by the length of the whole way;
    - HOG (96), HOF (108), MBHx (96), MBHy (96): histograms of the image's gradient, the flow and the gradients of the
      flow's two components, in the 32x32x15 volume around the track, cut in 2x2x3 cells.

    Parameters
    ----------
    step : int, default 5
        Distance of sampled points in pixels.
    length : int, default 15
        Frames that a point is followed for; a multiple of 3. A shorter video has no tracks.
    n_scales : int, default 8
        Spatial scales at most.
    patch_size : int, default 32
        Width of the volume around a track in pixels; even.
    quality : float, default 0.001
        A point is set where the smaller eigenvalue of the gradient's second moments is above this share of the largest
        in the frame.
    min_flow : float, default 0.4
        Flow below this (pixels per frame) counts as none in HOF.
    n_jobs : int or None, default None
        Threads over videos; None is all cores.

    Examples
    --------
    >>> import numpy as np
    >>> texture = np.random.default_rng(0).integers(0, 256, (80, 120)).astype(np.uint8)
    >>> video = [texture[:64, t : t + 64] for t in range(0, 40, 2)]
    >>> DenseTrajectories(n_scales=1).compute(video)[1].shape[1]
    426
    """

    def __init__(
        self,
        step: int = 5,
        *,
        length: int = 15,
        n_scales: int = 8,
        patch_size: int = 32,
        quality: float = 0.001,
        min_flow: float = 0.4,
        n_jobs: int | None = None,
    ) -> None:
        self.step = step
        self.length = length
        self.n_scales = n_scales
        self.patch_size = patch_size
        self.quality = quality
        self.min_flow = min_flow
        self.n_jobs = n_jobs

    def compute(self, frames: Iterable[ArrayLike]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Describe one video.

        Parameters
        ----------
        frames : (h, w) or (h, w, 3) arrays, all of one shape; may be an iterator, which is read once

        Returns
        -------
        places : (n, 4) float32
            Mean x and y of each track in pixels, its scale (1 is the video's own), and its last frame's number.
        descriptors : (n, 2 * length + 396) float32
        """
        self._check_params()
        scales: list[Tracks] = []
        places: list[NDArray[np.float32]] = []
        described: list[NDArray[np.float32]] = []
        shape = None
        for number, frame in enumerate(frames):
            grey = grey_bytes(frame, f"frame {number}")
            if shape is None:
                shape = grey.shape
                scales = self._scales(shape)
            elif grey.shape != shape:
                raise ValueError(f"frame {number} must have the first frame's shape {shape}. Got {grey.shape}.")
            for scale in scales:
                points, histograms = scale.advance(grey)
                keep = _moves(points * scale.factor)
                if keep.any():
                    places.append(_places(points[keep], scale.factor, number))
                    pixels_per_cell = self.length * self.patch_size**2 / 12
                    described.append(_descriptors(points[keep], histograms[keep], pixels_per_cell))
        if not described:
            return np.zeros((0, 4), dtype=np.float32), np.zeros((0, 2 * self.length + 396), dtype=np.float32)
        return np.concatenate(places), np.concatenate(described)

    def _scales(self, shape: tuple[int, ...]) -> list[Tracks]:
        """Tracks of each scale whose frames still hold a patch."""
        scales = []
        for i in range(int(self.n_scales)):
            factor = SCALE_RATIO**i
            height, width = (round(side / factor) for side in shape)
            if min(height, width) < self.patch_size:
                break
            scales.append(Tracks((height, width), factor, self))
        return scales

    def _check_params(self) -> None:
        check_int(self, "step", self.step, 1)
        if check_int(self, "length", self.length, 3) % 3:
            reject(self, "length", "a multiple of 3", self.length)
        check_int(self, "n_scales", self.n_scales, 1)
        if check_int(self, "patch_size", self.patch_size, 2) % 2:
            reject(self, "patch_size", "even", self.patch_size)
        check_positive(self, "quality", self.quality, zero=True)
        check_positive(self, "min_flow", self.min_flow, zero=True)


def _moves(points: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which of the tracks (n, length + 1, 2), in the video's own pixels, are neither static nor lost nor jumping."""
    deviations = points.std(axis=1)
    steps = np.linalg.norm(np.diff(points, axis=1), axis=2)
    static = (deviations < MIN_DEVIATION).all(axis=1)
    lost = (deviations > MAX_DEVIATION).any(axis=1)
    longest = steps.max(axis=1)
    jumps = (longest > MAX_STEP) & (longest > MAX_SHARE * steps.sum(axis=1))
    return ~(static | lost | jumps)


def _places(points: NDArray[np.float32], factor: float, number: int) -> NDArray[np.float32]:
    places = np.empty((len(points), 4), dtype=np.float32)
    places[:, :2] = points.mean(axis=1) * factor
    places[:, 2] = factor
    places[:, 3] = number
    return places


def _descriptors(
    points: NDArray[np.float32], histograms: NDArray[np.float32], pixels_per_cell: float
) -> NDArray[np.float32]:
    """Put together the parts of each track: steps (n, length + 1, 2) and histograms (n, 3, 4, 33)."""
    steps = np.diff(points, axis=1)
    way = np.linalg.norm(steps, axis=2).sum(axis=1)
    parts = [steps.reshape(len(steps), -1) / way[:, None]]
    for bins, floor in zip((HOG, HOF, MBHX, MBHY), FLOORS.values(), strict=True):
        part = histograms[..., bins].reshape(len(steps), -1) / pixels_per_cell
        parts.append(part / np.sqrt((part**2).sum(axis=1, keepdims=True) + floor**2))
    return np.concatenate(parts, axis=1).astype(np.float32)
