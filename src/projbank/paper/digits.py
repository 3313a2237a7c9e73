"""The data set of `--quick`: scikit-learn's digits as small Fisher vectors, written to files like any other set."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from projbank.features.extract import Outputs
from projbank.files import atomic_path
from projbank.paper.sets import SetFiles

SIDE = 48
"""Width that the digits of 8x8 pixels are enlarged to: descriptors need room."""
COMPONENTS = 8
N_IMAGES = 600
N_TRAIN = 400
"""Images of the training part of the split, for the action protocol."""


def digit_set(folder: Path) -> SetFiles:
    """Make the set in a folder, unless it is there: 600 images, Fisher vectors of 2,048 dimensions."""
    outputs = Outputs(folder / "digits.npy")
    pictures, split = folder / "digits.zip", folder / "digits.split.npy"
    if not outputs.vectors.exists():  # written last
        folder.mkdir(parents=True, exist_ok=True)
        images, labels = _images()
        names = [f"{row:04d}.png" for row in range(len(labels))]
        _write_zip(pictures, names, images)
        _write(outputs.files, "".join(name + "\n" for name in names).encode())
        _write(outputs.classes, "".join(f"{digit}\tdigit {digit}\n" for digit in range(10)).encode())
        _write_array(outputs.labels, labels)
        _write_array(split, (np.arange(len(labels)) < N_TRAIN).astype(np.int64))
        _write_array(outputs.vectors, _fisher_vectors(images))
    title = "scikit-learn's digits, small Fisher vectors"
    return SetFiles(
        "digits", title=title, kind="fv", vectors=outputs.vectors, pictures=pictures, split=split, queries=100
    )


def _images() -> tuple[np.ndarray, np.ndarray]:
    import cv2
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))[:N_IMAGES]
    grey = (digits.images[order] * (255 / 16)).astype(np.float32)
    large = np.stack([cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for image in grey])
    return np.clip(large, 0, 255).astype(np.uint8), digits.target[order].astype(np.int64)


def _fisher_vectors(images: np.ndarray) -> np.ndarray:
    from projbank.features import DenseSIFT, FisherVector
    from projbank.features.extractor import FeatureExtractor

    describe = DenseSIFT((4, 6, 8), smoothing=0)
    encode = FisherVector(COMPONENTS, max_descriptors=20_000, random_state=0)
    return np.asarray(FeatureExtractor(describe, encode).fit_transform(images), np.float32)


def _write_zip(path: Path, names: list[str], images: np.ndarray) -> None:
    import cv2

    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, image in zip(names, images, strict=True):
            archive.writestr(name, cv2.imencode(".png", 255 - image)[1].tobytes())


def _write_array(path: Path, array: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array)
    _write(path, buffer.getvalue())


def _write(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
