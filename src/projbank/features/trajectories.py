"""Dense trajectories: points followed through a video by optical flow, described along their way (Wang et al. 2011)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.features.images import Descriptor, grey_bytes
from projbank.kernels import features as kernels
from projbank.params import check_int, check_positive, reject

SCALE_RATIO = 2**0.5
N_BINS = 33
FIRST_BINS = np.array([0, 8, 17, 25], dtype=np.int64)
"""First bin of HOG, HOF, MBHx and MBHy in a cell's histogram."""
STILL_BIN = 16
"""Bin of HOF for what does not move."""
FLOORS = (1.0, 0.05, 0.05, 0.05)
"""Mean magnitude per pixel (grey levels, pixels) below which a part fades instead of being blown up to length 1."""
MIN_DEVIATION = 3**0.5
"""Tracks whose coordinates both deviate less (pixels) are static."""
MAX_DEVIATION = 50.0
"""Tracks that deviate more have been lost."""
MAX_STEP = 20.0
"""A single step longer than this (pixels) that is also most of the way is a jump."""
MAX_SHARE = 0.7
"""Share of the whole way that makes a long step a jump."""


class Tracks:
    """The tracks under way at one scale.

    Parameters
    ----------
    shape : (h, w) of the scale's frames
    factor : how many of the video's pixels are one pixel here
    settings : the parameters of the descriptor
    """

    def __init__(self, shape: tuple[int, int], factor: float, settings: DenseTrajectories) -> None:
        self.shape = shape
        self.factor = factor
        self._settings = settings
        self._previous: NDArray[np.uint8] | None = None
        self._points = np.zeros((0, settings.length + 1, 2), dtype=np.float32)
        self._ages = np.zeros(0, dtype=np.int64)
        self._histograms = np.zeros((0, 3, 4, N_BINS), dtype=np.float32)

    def advance(self, frame: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Set new points in the frame before `frame`, describe all points there, and move them with the flow.

        Returns
        -------
        points : (m, length + 1, 2) float32, the tracks that are now complete, in this scale's pixels
        histograms : (m, 3, 4, 33) float32, sums over the cells of their volumes
        """
        import cv2

        height, width = self.shape
        if frame.shape != self.shape:
            frame = np.asarray(cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
        before, self._previous = self._previous, frame
        if before is None:
            return self._points, self._histograms  # none yet
        flow: Any = None
        flow = cv2.calcOpticalFlowFarneback(before, frame, flow, 0.5**0.5, 5, 10, 2, 7, 1.5, 0)
        flow = np.asarray(flow, dtype=np.float32)
        self._set_points(before)
        here = self._here()
        self._describe(before, flow, here)
        there = here + _median_flow(flow)[self._pixel(here)]
        self._ages += 1
        self._points[np.arange(len(self._ages)), self._ages] = there
        inside = (there >= 0).all(axis=1) & (there[:, 0] <= width - 1) & (there[:, 1] <= height - 1)
        complete = inside & (self._ages == self._settings.length)
        finished = self._points[complete], self._histograms[complete]
        going = inside & ~complete
        self._points, self._ages, self._histograms = self._points[going], self._ages[going], self._histograms[going]
        return finished

    def _here(self) -> NDArray[np.float32]:
        return self._points[np.arange(len(self._ages)), self._ages]

    def _pixel(self, points: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of the pixel that each point is in."""
        whole = np.rint(points).astype(np.int64)
        return whole[:, 1], whole[:, 0]

    def _set_points(self, frame: NDArray[np.uint8]) -> None:
        """Start a track in every grid square that has none, unless the image is even there."""
        import cv2

        step, (height, width) = self._settings.step, self.shape
        rows, columns = height // step, width // step
        free = np.ones((rows, columns), dtype=bool)
        squares = (self._here() // step).astype(np.int64)
        within = (squares[:, 0] < columns) & (squares[:, 1] < rows)
        free[squares[within, 1], squares[within, 0]] = False
        y, x = (places * step + step // 2 for places in np.nonzero(free))
        corners = np.asarray(cv2.cornerMinEigenVal(frame, 3, ksize=3))
        textured = corners[y, x] > self._settings.quality * corners.max()
        new = np.zeros((int(textured.sum()), self._settings.length + 1, 2), dtype=np.float32)
        new[:, 0, 0], new[:, 0, 1] = x[textured], y[textured]
        self._points = np.concatenate([self._points, new])
        self._ages = np.concatenate([self._ages, np.zeros(len(new), dtype=np.int64)])
        fresh = np.zeros((len(new), *self._histograms.shape[1:]), dtype=np.float32)
        self._histograms = np.concatenate([self._histograms, fresh])

    def _describe(self, frame: NDArray[np.uint8], flow: NDArray[np.float32], here: NDArray[np.float32]) -> None:
        """Add this frame's histograms around each point; a patch that sticks out is moved inside."""
        if not len(here):
            return
        patch, (height, width) = self._settings.patch_size, self.shape
        integral = np.empty((height + 1, width + 1, N_BINS))
        magnitudes, angles = _fields(frame, flow)
        kernels.integral_histograms(
            magnitudes, angles, FIRST_BINS, STILL_BIN, np.float32(self._settings.min_flow), integral
        )
        rows, columns = self._pixel(here)
        corners = np.empty((len(here), 2), dtype=np.int64)
        corners[:, 0] = np.clip(columns - patch // 2, 0, width - patch)
        corners[:, 1] = np.clip(rows - patch // 2, 0, height - patch)
        kernels.add_cells(integral, corners, patch // 2, self._ages * 3 // self._settings.length, self._histograms)


def _median_flow(flow: NDArray[np.float32]) -> NDArray[np.float32]:
    import cv2

    return np.stack([cv2.medianBlur(np.ascontiguousarray(flow[..., i]), 3) for i in range(2)], axis=2)


def _fields(frame: NDArray[np.uint8], flow: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Magnitudes and angles (4, h, w) of the image's gradient, the flow, and the gradients of the flow's components."""
    import cv2

    u, v = np.ascontiguousarray(flow[..., 0]), np.ascontiguousarray(flow[..., 1])
    pairs = [_gradient(frame), (u, v), _gradient(u), _gradient(v)]
    magnitudes = np.empty((4, *frame.shape), dtype=np.float32)
    angles = np.empty_like(magnitudes)
    for i, (dx, dy) in enumerate(pairs):
        cv2.cartToPolar(dx, dy, magnitudes[i], angles[i])
    return magnitudes, angles


def _gradient(image: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Central differences over two pixels, 0 across the border."""
    import cv2

    dx = cv2.Sobel(image, cv2.CV_32F, 1, 0, ksize=1)
    dy = cv2.Sobel(image, cv2.CV_32F, 0, 1, ksize=1)
    return np.asarray(dx, dtype=np.float32), np.asarray(dy, dtype=np.float32)


@dataclass(eq=False, repr=False)
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

    step: int = 5
    _: KW_ONLY
    length: int = 15
    n_scales: int = 8
    patch_size: int = 32
    quality: float = 0.001
    min_flow: float = 0.4
    n_jobs: int | None = None

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
    for histogram, floor in zip(np.split(histograms, FIRST_BINS[1:], axis=-1), FLOORS, strict=True):
        part = histogram.reshape(len(steps), -1) / pixels_per_cell
        parts.append(part / np.sqrt((part**2).sum(axis=1, keepdims=True) + floor**2))
    return np.concatenate(parts, axis=1).astype(np.float32)
