"""Whether two photos look the same: fingerprints, key points that fit one movement, pixels that agree after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projbank.features.sift import SIFT

LOOK_SIDE = 16
LOOK_BITS = LOOK_SIDE * LOOK_SIDE

SIDE = 256
"""Photos are compared at this size."""
KEY_POINTS = 250
RATIO = 0.8
"""A match must be so much nearer than the second nearest."""
LEAST_MATCHES = 8
TOLERANCE = 4.0
"""Pixels by which a match may miss the movement."""
SMALLEST, LARGEST = 0.2, 5.0
"""Change of scale that is believed."""
OVERLAP = 0.25
"""Share of the smaller photo that must be seen in both."""
LEFT_OUT = 0.15
"""Share of the pixels that may be something else: a watermark, a date."""
AGREEMENT, FEW_MATCHES, AGREEMENT_OF_FEW = 0.92, 20, 0.96
"""Correlation of the other pixels from which two photos show the same picture: more is asked where matches are few."""
PLAIN = 16
"""Width and height at which photos without key points are compared."""
PLAIN_AGREEMENT = 0.98
_MIRRORED = np.arange(128).reshape(4, 4, 8)[::-1][:, :, -np.arange(8) % 8].ravel()
"""Where the numbers of a SIFT descriptor (row, column, orientation) stand for the mirrored picture."""


def look_of(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 32 bytes for a grey or colour image: bit 16 y + x is 1 where it grows darker from left to right."""
    import cv2

    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    small = cv2.resize(np.asarray(grey, np.float32), (LOOK_SIDE + 1, LOOK_SIDE), interpolation=cv2.INTER_AREA)
    return np.packbits(small[:, :-1] > small[:, 1:], bitorder="little")


def mirrored(looks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fingerprints (n, 32) of the same photos mirrored left to right."""
    bits = np.unpackbits(looks, axis=1, bitorder="little").reshape(-1, LOOK_SIDE, LOOK_SIDE)
    return np.packbits(1 - bits[:, :, ::-1].reshape(len(looks), -1), axis=1, bitorder="little")


@dataclass(frozen=True)
class Points:
    """A photo made ready to be compared: grey pixels, places and RootSIFT descriptors of key points."""

    grey: NDArray[np.uint8]
    places: NDArray[np.float32]
    descriptors: NDArray[np.uint8]
    """Roots of shares, in 512ths."""

    def mirrored(self) -> Points:
        """The same of the photo mirrored left to right."""
        places = self.places.copy()
        places[:, 0] = self.grey.shape[1] - 1 - places[:, 0]
        return Points(np.ascontiguousarray(self.grey[:, ::-1]), places, self.descriptors[:, _MIRRORED])


def points_of(grey: NDArray[np.uint8]) -> Points:
    """Find the key points of a grey image."""
    frames, roots = SIFT(KEY_POINTS).compute(grey)
    return Points(grey, frames[:, :2], np.minimum(np.rint(512 * roots), 255).astype(np.uint8))


def is_same_picture(one: Points, other: Points) -> bool:
    """Whether the pixels of two photos agree after the movement that their key points agree on.

    A movement shifts, turns and scales; brightness and contrast may differ, and a part of the pixels. Photos with next
    to no key points are compared as they lie.
    """
    if min(len(one.places), len(other.places)) < LEAST_MATCHES:
        return correlation(_plain(one.grey), _plain(other.grey)) >= PLAIN_AGREEMENT
    movement, n_matches = _movement(one, other)
    if movement is None:
        return False
    seen = _seen_in_both(one.grey, other.grey, movement)
    least = AGREEMENT if n_matches >= FEW_MATCHES else AGREEMENT_OF_FEW
    return seen is not None and correlation(*seen, left_out=LEFT_OUT) >= least


def correlation(one: NDArray[np.float32], other: NDArray[np.float32], left_out: float = 0.0) -> float:
    """Correlation of two rows of numbers, without the share of them that fits one straight line least."""
    for share in (left_out, 0.0):
        a, b = one - one.mean(), other - other.mean()
        lengths = np.sqrt(np.dot(a, a) * np.dot(b, b))
        if lengths == 0:
            return 0.0
        if share:
            misses = np.abs(b - np.dot(a, b) / np.dot(a, a) * a)
            kept = misses <= np.quantile(misses, 1 - share)
            one, other = one[kept], other[kept]
    return float(np.dot(a, b) / lengths)


def _movement(one: Points, other: Points) -> tuple[NDArray[np.float64] | None, int]:
    """Similarity transform from the first photo to the second, (2, 3), and how many matches it fits."""
    import cv2

    closeness = one.descriptors.astype(np.float32) @ other.descriptors.T.astype(np.float32) / 512**2
    best = closeness.argmax(axis=1)
    rows = np.arange(len(best))
    first = closeness[rows, best]
    closeness[rows, best] = -1
    kept = 1 - first < RATIO**2 * (1 - closeness.max(axis=1))
    if kept.sum() < LEAST_MATCHES:
        return None, 0
    movement, fits = cv2.estimateAffinePartial2D(
        one.places[kept], other.places[best[kept]], method=cv2.RANSAC, ransacReprojThreshold=TOLERANCE, maxIters=500
    )
    if movement is None or fits.sum() < LEAST_MATCHES:
        return None, 0
    scale = float(np.hypot(movement[0, 0], movement[1, 0]))
    return (np.asarray(movement) if SMALLEST <= scale <= LARGEST else None), int(fits.sum())


def _seen_in_both(
    one: NDArray[np.uint8], other: NDArray[np.uint8], movement: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Pixels of the moved first photo and of the second where they overlap, blurred; None where they hardly do."""
    import cv2

    size = other.shape[1], other.shape[0]
    moved = np.asarray(cv2.warpAffine(one, movement, size, flags=cv2.INTER_AREA), dtype=np.uint8)
    seen = cv2.warpAffine(np.full_like(one, 255), movement, size, flags=cv2.INTER_NEAREST) > 0
    if seen.sum() < OVERLAP * min(one.size * abs(np.linalg.det(movement[:, :2])), other.size):
        return None
    first, second = (cv2.GaussianBlur(image, (0, 0), 1.5)[seen].astype(np.float32) for image in (moved, other))
    return first, second


def _plain(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    import cv2

    return np.asarray(cv2.resize(image, (PLAIN, PLAIN), interpolation=cv2.INTER_AREA), dtype=np.float32).ravel()
