"""Small pictures and videos written to disk, for the tests of readers and extraction."""

from __future__ import annotations

import zipfile
from pathlib import Path

import cv2
import numpy as np


def picture(seed: int, side: int = 40) -> np.ndarray:
    """Grey noise with structure."""
    noise = np.random.default_rng(seed).integers(0, 256, (side // 4, side // 4)).astype(np.uint8)
    return cv2.resize(noise, (side, side), interpolation=cv2.INTER_CUBIC)


def write_picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode(".png", picture(seed))[1].tobytes())


def write_video(path: Path, seed: int, n_frames: int = 20, side: int = 64) -> None:
    """A texture that moves by 2 pixels per frame, as motion JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = picture(seed, 4 * side)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25, (side, side), False)
    assert writer.isOpened()
    for t in range(n_frames):
        writer.write(np.ascontiguousarray(image[:side, 2 * t : 2 * t + side]))
    writer.release()


def picture_folder(root: Path, n_classes: int = 3, per_class: int = 4) -> Path:
    for c in range(n_classes):
        for i in range(per_class):
            write_picture(root / f"class{c}" / f"{i:02d}.png", 100 * c + i)
    return root


def zip_of(folder: Path, path: Path, labels: str | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
        if labels is not None:
            archive.writestr("labels.csv", labels)
    return path
