"""Which files are pictures and videos, and decoding of videos; what can't be decoded, or is too large, is named."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from projbank.params import check_int

IMAGE_SUFFIXES = (
    *(".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"),
)
VIDEO_SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm")
MAX_PIXELS = 100_000_000
"""Larger pictures and frames are refused before they are decoded: a small file may ask for all memory."""


class MediaError(ValueError):
    """A file can't be decoded."""


def video_frames(
    path: str | os.PathLike[str], name: str, max_side: int | None = None, max_pixels: int = MAX_PIXELS
) -> Iterator[NDArray[np.uint8]]:
    """Decode a video file frame by frame, each grey (h, w) uint8, made smaller as by `shrink`."""
    import cv2

    capture = cv2.VideoCapture(os.fspath(path))
    try:
        sides = [int(capture.get(side)) for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)]
        check_size(name, sides[0], sides[1], max_pixels)
        found = False
        while True:
            try:
                going, frame = capture.read()
            except cv2.error as error:
                raise MediaError(f"{name}: can't be decoded as a video ({error.err}).") from error
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
    longest = max(image.shape[:2])
    if longest <= max_side:
        return image
    height, width = (max(1, round(side * max_side / longest)) for side in image.shape[:2])
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def check_size(name: str, width: int, height: int, max_pixels: int) -> None:
    """Raise MediaError for a picture of more than `max_pixels` pixels."""
    if width * height > max_pixels:
        raise MediaError(f"{name}: is too large: {width} x {height} pixels, at most {max_pixels} (max_pixels).")
