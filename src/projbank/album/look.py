"""A fingerprint of how a photo looks: 256 comparisons of brightness, which scaling and compression leave alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE = 16
LOOK_BITS = SIDE * SIDE


def look_of(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 32 bytes for a grey or colour image: bit 16 y + x is 1 where it grows darker from left to right."""
    import cv2

    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    small = cv2.resize(np.asarray(grey, np.float32), (SIDE + 1, SIDE), interpolation=cv2.INTER_AREA)
    return np.packbits(small[:, :-1] > small[:, 1:], bitorder="little")


def mirrored(looks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fingerprints (n, 32) of the same photos mirrored left to right."""
    bits = np.unpackbits(looks, axis=1, bitorder="little").reshape(-1, SIDE, SIDE)
    return np.packbits(1 - bits[:, :, ::-1].reshape(len(looks), -1), axis=1, bitorder="little")
