"""The data set of `--quick`: scikit-learn's digits as small Fisher vectors, written to files like any other set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from projbank.features.extract import Outputs
from projbank.files import atomic_path
from projbank.paper.sets import SetFiles

SIDE = 48
"""Width that the digits of 8x8 pixels are enlarged to: descriptors need room."""
COMPONENTS = 8
N_IMAGES = 600
TRAINING_SHARE = 2 / 3
"""Part of the images for training, in the action protocol."""


def digit_set(folder: Path) -> SetFiles:
    """Make the set in a folder, unless it is there: 600 images, Fisher vectors of 2,048 dimensions."""
    outputs, split = Outputs(folder / "digits.npy"), folder / "digits.split.npy"
    if not outputs.vectors.exists():  # written last
        folder.mkdir(parents=True, exist_ok=True)
        vectors, labels = digit_vectors(N_IMAGES)
        _write(outputs.labels, labels)
        _write(split, (np.arange(len(labels)) < TRAINING_SHARE * len(labels)).astype(np.int64))
        _write(outputs.vectors, vectors)
    title = "scikit-learn's digits, small Fisher vectors"
    return SetFiles("digits", title=title, kind="fv", toy=True, vectors=outputs.vectors, split=split, queries=100)


def digit_vectors(n_images: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Fisher vectors of some of the digits, enlarged, and their labels."""
    import cv2
    from sklearn.datasets import load_digits

    from projbank.features import DenseSIFT, FisherVector
    from projbank.features.extractor import FeatureExtractor

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))[:n_images]
    grey = (digits.images[order] * (255 / 16)).astype(np.float32)
    large = np.stack([cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for image in grey])
    encode = FisherVector(COMPONENTS, max_descriptors=20_000, random_state=0)
    extractor = FeatureExtractor(DenseSIFT((4, 6, 8), smoothing=0), encode)
    vectors = np.asarray(extractor.fit_transform(np.clip(large, 0, 255).astype(np.uint8)), np.float32)
    return vectors, digits.target[order].astype(np.int64)


def _write(path: Path, array: NDArray) -> None:
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.save(file, array)
