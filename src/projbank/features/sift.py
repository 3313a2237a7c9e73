"""SIFT at interest points: OpenCV's detector and descriptor."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.features.images import Descriptor, grey_bytes
from projbank.params import check_int, check_positive


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

    def __init__(
        self,
        n_features: int = 0,
        *,
        root: bool = True,
        contrast_threshold: float = 0.04,
        n_jobs: int | None = None,
    ) -> None:
        self.n_features = n_features
        self.root = root
        self.contrast_threshold = contrast_threshold
        self.n_jobs = n_jobs

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
