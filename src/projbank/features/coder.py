"""Pictures or videos straight to codes: what describes them and the bank that codes them, in one object and file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from projbank.features.extractor import FeatureExtractor
from projbank.features.net import ConvMaps
from projbank.integrity import identity
from projbank.models.file import ModelFileError, load, write_model

PARTS = ("describer", "bank")


Describer = FeatureExtractor | ConvMaps
"""What turns one picture, or one video given as its frames, into a long vector."""


class MediaCoder:
    """A describer and a fitted bank: one file with all that turns pictures (or videos) into codes.

    Parameters
    ----------
    describer : fitted `FeatureExtractor`, or `ConvMaps`
    bank : any fitted estimator that codes vectors as long as the describer's

    Examples
    --------
    >>> import numpy as np
    >>> from projbank import ProjectionBank
    >>> from projbank.features import DenseSIFT, FeatureExtractor, FisherVector
    >>> images = np.random.default_rng(0).integers(0, 256, (8, 40, 40)).astype(np.uint8)
    >>> extractor = FeatureExtractor(DenseSIFT((4,)), FisherVector(2)).fit(images)
    >>> bank = ProjectionBank(n_bits=32, solver="random").fit(extractor.transform(images))
    >>> MediaCoder(extractor, bank).transform(images).shape
    (8, 4)
    """

    def __init__(self, describer: Describer, bank: Any) -> None:
        if bank.n_features_in_ != describer.n_dims_:
            raise ValueError(
                f"the bank codes vectors of {bank.n_features_in_} dimensions, but descriptions have "
                f"{describer.n_dims_}."
            )
        self.describer = describer
        self.bank = bank
        bank.trained_on_ = describer.identity()

    @property
    def media(self) -> str:
        """What is coded, "image" or "video"."""
        return self.describer.media

    @property
    def n_bits_(self) -> int:
        """Bits of a code."""
        return int(self.bank.n_bits_)

    def transform(self, pictures: Any) -> NDArray[np.uint8]:
        """Code pictures, or videos given as their frames: (n, ceil(n_bits / 8)) uint8."""
        codes: NDArray[np.uint8] = self.bank.transform(self.vectors(pictures))
        return codes

    def vectors(self, pictures: Any) -> NDArray[np.float32]:
        """Describe pictures, or videos given as their frames: (n, D) float32."""
        return np.stack([self.describer.vector(picture) for picture in pictures])

    def code(self, vector: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Code of one described picture or video, by one thread."""
        codes: NDArray[np.uint8] = self.bank.set_params(n_jobs=1).transform(vector[None])
        return codes[0]

    def identity(self) -> str:
        """Class and 16 digits over both parts; codes can be compared where it agrees."""
        return identity(type(self).__name__, {}, {name: getattr(self, name).identity() for name in PARTS})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, which holds the files of both parts; `projbank.load` reads it."""
        files = {}
        with tempfile.TemporaryDirectory(prefix="projbank-") as folder:
            for name in PARTS:
                getattr(self, name).save(Path(folder) / name)
                files[name] = np.fromfile(Path(folder) / name, dtype=np.uint8)
        params = {"media": self.media, "bits": self.n_bits_, "describer": self.describer.settings()}
        write_model(path, self, params, files)

    @classmethod
    def _from_file(cls, params: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild from a model file's parts; `projbank.load` calls this."""
        parts = {}
        with tempfile.TemporaryDirectory(prefix="projbank-") as folder:
            for name in PARTS:
                if name not in arrays or arrays[name].dtype != np.uint8:
                    raise ModelFileError(f"lacks the {name}")
                arrays[name].tofile(Path(folder) / name)
                parts[name] = load(Path(folder) / name)
        if not hasattr(parts["describer"], "vector") or not hasattr(parts["bank"], "n_features_in_"):
            raise ModelFileError("its parts are not a describer and a bank")
        return cls(parts["describer"], parts["bank"])
