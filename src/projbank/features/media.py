"""Decoding pictures and videos with OpenCV; what can't be decoded is named."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from projbank.params import check_int

IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
VIDEO_SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm")


class MediaError(ValueError):
    """A file can't be decoded."""


def decode_image(data: bytes, name: str, max_side: int | None = None) -> NDArray[np.uint8]:
    """Decode an image file as grey (h, w) uint8, made smaller where its longer side is above `max_side`."""
    import cv2

    image = None
    if data:
        try:
            image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_GRAYSCALE)
        except cv2.error as error:
            raise MediaError(f"{name}: can't be decoded as an image ({error.err}).") from error
    if image is None:
        raise MediaError(f"{name}: can't be decoded as an image.")
    return shrink(np.asarray(image, dtype=np.uint8), max_side)


def video_frames(path: str | os.PathLike[str], name: str, max_side: int | None = None) -> Iterator[NDArray[np.uint8]]:
    """Decode a video file frame by frame, each grey (h, w) uint8, made smaller as in `decode_image`."""
    import cv2

    capture = cv2.VideoCapture(os.fspath(path))
    try:
        found = False
        while True:
            going, frame = capture.read()
            if not going:
                break
            found = True
            grey = frame if frame.ndim == 2 else cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
            yield shrink(np.asarray(grey, dtype=np.uint8), max_side)
        if not found:
            raise MediaError(f"{name}: can't be decoded as a video.")
    finally:
        capture.release()


def shrink(image: NDArray[np.uint8], max_side: int | None) -> NDArray[np.uint8]:
    """Scale an image down so that its longer side is `max_side`; None and small images leave it as it is."""
    if max_side is None:
        return image
    import cv2

    check_int("shrink", "max_side", max_side, 1)
    longest = max(image.shape)
    if longest <= max_side:
        return image
    height, width = (max(1, round(side * max_side / longest)) for side in image.shape)
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
