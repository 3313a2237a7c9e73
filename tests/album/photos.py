"""Photos of made-up scenes for the tests of albums: quick to draw, each unlike the others, with texture to describe."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

SIDE = 96


def scene(seed: int, side: int = SIDE) -> np.ndarray:
    """A background that changes slowly, with shapes on it: (side, side, 3) uint8."""
    rng = np.random.default_rng([7, seed])
    image = cv2.resize(rng.integers(0, 256, (4, 4, 3)).astype(np.uint8), (side, side), interpolation=cv2.INTER_CUBIC)
    for _ in range(14):
        colour = tuple(int(c) for c in rng.integers(0, 256, 3))
        x, y, radius = (int(v) for v in rng.integers(4, side - 4, 3))
        radius = 3 + radius // 6
        if rng.integers(2):
            cv2.circle(image, (x, y), radius, colour, -1)
        else:
            cv2.rectangle(image, (x - radius, y - radius), (x + radius, y + radius // 2), colour, -1)
    return image


def write_scene(path: Path, seed: int, side: int = SIDE, **options) -> None:
    write(path, scene(seed, side))


def write(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    quality = [cv2.IMWRITE_JPEG_QUALITY, 92] if path.suffix == ".jpg" else []
    path.write_bytes(cv2.imencode(path.suffix, image, quality)[1].tobytes())


def folder_of(root: Path, n: int, start: int = 0) -> Path:
    for seed in range(start, start + n):
        write_scene(root / f"{seed % 3}" / f"{seed:03d}.jpg", seed)
    return root
