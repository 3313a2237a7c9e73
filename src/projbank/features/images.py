"""What all local descriptors share: grey images, and one array of descriptors per image or video."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from projbank.threads import run_ordered, thread_count

GREY_WEIGHTS = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Shares of red, green and blue in grey, as in OpenCV."""


def grey_image(image: ArrayLike, name: str = "image") -> NDArray[Any]:
    """Return an image as a 2-D array: uint8 as it is, other numbers as float32 (grey levels 0..255), RGB made grey."""
    array = np.asarray(image)
    if array.ndim == 3 and array.shape[2] == 3:
        grey = array.astype(np.float32) @ GREY_WEIGHTS
        array = np.rint(grey).astype(np.uint8) if array.dtype == np.uint8 else grey
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be a grey (h, w) or an RGB (h, w, 3) image. Got shape {array.shape}.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers. Got dtype {array.dtype}.")
    array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return array


def grey_bytes(image: ArrayLike, name: str = "image") -> NDArray[np.uint8]:
    """Return an image as a 2-D uint8 array; other numbers are rounded."""
    grey = grey_image(image, name)
    return grey if grey.dtype == np.uint8 else np.rint(np.clip(grey, 0, 255)).astype(np.uint8)


class ListEstimator(TransformerMixin, BaseEstimator):
    """Base of estimators whose input is a list of images, videos or bags of descriptors, not a matrix."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class Descriptor(ListEstimator, ABC):
    """Base of local descriptors: a subclass describes one image or video, this class maps it over many.

    There is nothing to learn: `fit` only checks the parameters.
    """

    n_jobs: int | None

    @abstractmethod
    def compute(self, image: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Describe one image (or video): where each descriptor is, (n, ...), and the descriptors, (n, k) float32."""

    @abstractmethod
    def _check_params(self) -> None:
        """Raise for a parameter out of range."""

    def fit(self, images: Any = None, y: Any = None) -> Self:
        """Check the parameters; `images` are not looked at."""
        self._check_params()
        return self

    def transform(self, images: Iterable[Any]) -> list[NDArray[np.float32]]:
        """Describe each image, or each video given as its frames: a list of (n_i, k) float32 arrays, in order."""
        self._check_params()
        calls = [(image,) for image in images]
        return run_ordered(lambda image: self.compute(image)[1], calls, thread_count(self.n_jobs))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
