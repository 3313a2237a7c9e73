"""SIFT: at interest points by OpenCV, and on a grid with a flat window, by maps that are filtered once per scale."""

from __future__ import annotations

import functools
import math
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.features.images import Descriptor, grey_bytes, grey_image
from projbank.kernels import features as kernels
from projbank.params import check_choice, check_int, check_positive, reject

CAMERA_SIGMA = 0.5
"""The blur that an image is assumed to have already."""
WINDOW_SIGMA = 2.0
"""The width in bins of the Gaussian that weighs a descriptor's bins."""
OPENCV_SIZE_PER_BIN = 1 / 1.5
"""`cv2.KeyPoint.size` of a descriptor whose spatial bins are one pixel wide."""


@dataclass(eq=False, repr=False)
class DenseSIFT(Descriptor):
    """SIFT descriptors on a regular grid at several scales, upright.

    A pixel's gradient is split over 8 orientations; each orientation map is smoothed by a triangle as wide as two bins,
    and a descriptor is 4x4 samples of the 8 smoothed maps. OpenCV weighs every pixel of a descriptor by a Gaussian;
    here each bin gets the Gaussian's value at its centre, which makes the smoothing common to all descriptors of a
    scale. The layout of the 128 numbers is OpenCV's (row, column, orientation; vertical axis up).

    Parameters
    ----------
    bin_sizes : tuple of int, default (3, 4, 6)
        Width of a spatial bin in pixels, one per scale. A descriptor covers 4x4 bins. ``cv2.KeyPoint`` calls the same
        scale ``size = bin_size / 1.5``.
    step : int, default 4
        Distance of grid points in pixels.
    root : bool, default True
        RootSIFT: the square root of the L1-normalised descriptor, so that Euclidean distances are Hellinger distances.
    smoothing : float, default 1/3
        Blur of the image that a scale looks at (sigma, of which 0.5 is taken to be there already), as a share of the
        bin size. 1/3 is Lowe's ratio and agrees best with OpenCV; 0 leaves the image as it is, which retrieves better
        (see docs/features.md).
    contrast : float, default 5
        A descriptor is of low contrast when the root mean square of its bins (mean gradient, grey levels of 0..255 per
        two pixels) is below this.
    low_contrast : {"drop", "zero", "keep"}, default "drop"
        What becomes of them. Exactly flat patches have no direction: "keep" gives them as zeros.
    n_jobs : int or None, default None
        Threads over images; None is all cores.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.random.default_rng(0).integers(0, 256, (40, 60)).astype(np.uint8)
    >>> frames, descriptors = DenseSIFT(bin_sizes=(4,), step=8).compute(image)
    >>> frames.shape, descriptors.shape
    ((24, 3), (24, 128))
    """

    bin_sizes: tuple[int, ...] = (3, 4, 6)
    _: KW_ONLY
    step: int = 4
    root: bool = True
    smoothing: float = 1 / 3
    contrast: float = 5.0
    low_contrast: str = "drop"
    n_jobs: int | None = None

    def compute(self, image: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Describe one image.

        Parameters
        ----------
        image : (h, w) or (h, w, 3) array, uint8 or float of grey levels 0..255

        Returns
        -------
        frames : (n, 3) float32
            x, y and bin size of each descriptor; scales follow each other, rows from top to bottom.
        descriptors : (n, 128) float32
            Each of length 1. An image too small for a scale gives none at that scale.
        """
        self._check_params()
        grey = grey_image(image).astype(np.float32, copy=False)
        grids = [_grid(*grey.shape, int(bin_size), int(self.step)) for bin_size in self.bin_sizes]
        frames = np.concatenate([grid.points for grid in grids])
        vectors = np.empty((len(frames), 128), dtype=np.float32)
        contrasts = np.empty(len(frames), dtype=np.float32)
        maps = np.empty((*grey.shape, 8), dtype=np.float32)  # scales share memory: fresh pages cost as much as filters
        rows = np.empty((max(len(grid.rows) for grid in grids), grey.shape[1], 8), dtype=np.float32)
        start = 0
        for grid in grids:
            stop = start + len(grid.points)
            if stop > start:
                self._describe(grey, grid, maps, rows, vectors[start:stop], contrasts[start:stop])
            start = stop
        weak = contrasts < self.contrast
        if self.low_contrast == "keep" or not weak.any():
            return frames, vectors
        if self.low_contrast == "drop":
            return frames[~weak], vectors[~weak]
        vectors[weak] = 0
        return frames, vectors

    def _describe(
        self,
        grey: NDArray[np.float32],
        grid: _Grid,
        maps: NDArray[np.float32],
        rows: NDArray[np.float32],
        vectors: NDArray[np.float32],
        contrasts: NDArray[np.float32],
    ) -> None:
        """Fill the descriptors of one scale and their contrasts; `maps` and `rows` are for work on the way."""
        bins = rows[: len(grid.rows)]
        kernels.orientation_maps(_blurred(grey, self.smoothing * grid.bin_size), maps)
        kernels.spatial_bins(maps, grid.rows, grid.bin_size, bins)
        kernels.descriptors(bins, grid.row_of, grid.column_of, WINDOW, bool(self.root), vectors, contrasts)
        contrasts /= grid.bin_size**2 * np.linalg.norm(WINDOW)

    def _check_params(self) -> None:
        if not isinstance(self.bin_sizes, tuple | list) or not self.bin_sizes:
            reject(self, "bin_sizes", "a tuple of one or more ints", self.bin_sizes)
        for bin_size in self.bin_sizes:
            check_int(self, "bin_sizes", bin_size, 2)
        check_int(self, "step", self.step, 1)
        check_positive(self, "smoothing", self.smoothing, zero=True)
        check_positive(self, "contrast", self.contrast, zero=True)
        check_choice(self, "low_contrast", self.low_contrast, ("drop", "zero", "keep"))


class _Grid:
    """Where the descriptors of one scale stand, and which rows and columns of smoothed maps they read."""

    def __init__(self, height: int, width: int, bin_size: int, step: int) -> None:
        self.bin_size = bin_size
        ys, xs = _centred(height, bin_size, step), _centred(width, bin_size, step)
        # bin i of a descriptor at y is centred at y + (i - 3/2) * bin_size; the half of an odd bin size is the kernel's
        offsets = ((2 * np.arange(4) - 3) * bin_size - (bin_size & 1)) // 2
        self.rows, places = np.unique(ys[:, None] + offsets, return_inverse=True)
        self.row_of = np.ascontiguousarray(places.reshape(-1, 4), dtype=np.int64)
        self.column_of = np.ascontiguousarray(xs[:, None] + offsets)
        self.points = np.empty((len(ys) * len(xs), 3), dtype=np.float32)
        self.points[:, 0] = np.tile(xs, len(ys))
        self.points[:, 1] = np.repeat(ys, len(xs))
        self.points[:, 2] = bin_size


_grid = functools.lru_cache(maxsize=64)(_Grid)


def _centred(length: int, bin_size: int, step: int) -> NDArray[np.int64]:
    """Grid lines `step` apart, centred, such that all bin centres lie inside the image."""
    margin = math.ceil(1.5 * bin_size)
    room = length - 1 - 2 * margin
    if room < 0:
        return np.zeros(0, dtype=np.int64)
    return margin + room % step // 2 + step * np.arange(room // step + 1, dtype=np.int64)


def _blurred(grey: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Bring the image to a blur of `sigma`, where it does not have it already."""
    import cv2

    missing = sigma**2 - CAMERA_SIGMA**2
    return np.asarray(cv2.GaussianBlur(grey, (0, 0), math.sqrt(missing))) if missing > 0.01 else grey


_LINE = np.exp(-((np.arange(4) - 1.5) ** 2) / (2 * WINDOW_SIGMA**2))
WINDOW = np.outer(_LINE, _LINE).astype(np.float32)
"""Weight of each of the 4x4 bins."""


@dataclass(eq=False, repr=False)
class SIFT(Descriptor):
    """SIFT descriptors at the extrema of the difference of Gaussians, by OpenCV.

    Parameters
    ----------
    n_features : int, default 0
        Keep that many of the strongest points; 0 keeps all.
    root : bool, default True
        RootSIFT: the square root of the L1-normalised descriptor. Otherwise descriptors have length 1.
    contrast_threshold : float, default 0.04
        OpenCV's threshold: higher drops more points of low contrast.
    n_jobs : int or None, default None
        Threads over images; None is all cores.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.zeros((64, 64), dtype=np.uint8)
    >>> image[24:40, 24:40] = 255
    >>> frames, descriptors = SIFT().compute(image)
    >>> descriptors.shape == (len(frames), 128)
    True
    """

    n_features: int = 0
    _: KW_ONLY
    root: bool = True
    contrast_threshold: float = 0.04
    n_jobs: int | None = None

    def compute(self, image: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Describe one image.

        Parameters
        ----------
        image : (h, w) or (h, w, 3) array, uint8 or float of grey levels 0..255

        Returns
        -------
        frames : (n, 3) float32
            x, y and OpenCV's size of each point.
        descriptors : (n, 128) float32
            Of length 1; (0, 128) where no point was found.
        """
        import cv2

        self._check_params()
        sift = cv2.SIFT.create(nfeatures=int(self.n_features), contrastThreshold=float(self.contrast_threshold))
        points, found = sift.detectAndCompute(grey_bytes(image), None)
        if found is None or not len(points):
            return np.zeros((0, 3), dtype=np.float32), np.zeros((0, 128), dtype=np.float32)
        frames = np.array([(*point.pt, point.size) for point in points], dtype=np.float32)
        vectors = np.asarray(found, dtype=np.float32)
        if self.root:
            totals = vectors.sum(axis=1, keepdims=True)
            return frames, np.sqrt(vectors / np.where(totals > 0, totals, 1))
        return frames, vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def _check_params(self) -> None:
        check_int(self, "n_features", self.n_features, 0)
        check_positive(self, "contrast_threshold", self.contrast_threshold, zero=True)
