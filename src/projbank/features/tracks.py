"""Points followed through the frames of one spatial scale, and the histograms gathered along their way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from projbank.kernels import features_trajectories as kernels

if TYPE_CHECKING:
    from projbank.features.trajectories import DenseTrajectories

SCALE_RATIO = 2**0.5
N_BINS = 33
FIRST_BINS = np.array([0, 8, 17, 25], dtype=np.int64)
"""First bin of HOG, HOF, MBHx and MBHy in a cell's histogram."""
STILL_BIN = 16
"""Bin of HOF for what does not move."""


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
