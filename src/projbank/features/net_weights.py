"""Reading PyTorch's weight files without PyTorch: an unpickler that makes nothing but arrays of numbers."""

from __future__ import annotations

import math
import os
import pickle
import struct
from collections import OrderedDict
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

MAGIC = 0x1950A86A20F9469CFC6C
MAX_NUMBERS = 1 << 28
"""Numbers of all tensors together; a damaged file may ask for any amount."""
_STORAGES = {"FloatStorage": "<f4", "LongStorage": "<i8", "HalfStorage": "<f2", "IntStorage": "<i4"}


class WeightFileError(ValueError):
    """A file is not one of tensors in PyTorch's old format, is damaged, or holds anything but numbers."""


def _refuse_state(self: object, state: object) -> None:
    raise pickle.UnpicklingError("it sets what tensors do not have")


class _Storage:
    """The numbers of a tensor or of several, filled in when the whole pickle has been read."""

    def __init__(self, dtype: str, size: int) -> None:
        self.dtype = np.dtype(dtype)
        self.size = size
        self.numbers: NDArray[Any] | None = None

    __setstate__ = _refuse_state


class _Tensor:
    """A view of a storage that may not be filled yet."""

    def __init__(self, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> None:
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
        self._parts = storage, offset, shape, strides

    __setstate__ = _refuse_state

    def array(self) -> NDArray[Any]:
        storage, offset, shape, strides = self._parts
        if storage.numbers is None:
            raise pickle.UnpicklingError("a tensor without numbers")
        steps = tuple(stride * storage.dtype.itemsize for stride in strides)
        view = np.lib.stride_tricks.as_strided(storage.numbers[offset:], shape, steps, writeable=False)
        return np.ascontiguousarray(view)


class _Unpickler(pickle.Unpickler):
    """Admits the few names that tensors are made of; every other name in the file is refused, and nothing is run."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, encoding="utf-8")
        self.storages: dict[str, _Storage] = {}
        self._left = MAX_NUMBERS

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Tensor
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
            self.storages[str(key)] = _Storage(_STORAGES[dtype], size)
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
            _fill(file, reader.storages, _plain(file))
            if not isinstance(tensors, dict):
                raise pickle.UnpicklingError("it holds no table of tensors")
            found = {str(name): tensor.array() for name, tensor in tensors.items() if isinstance(tensor, _Tensor)}
            if len(found) < len(tensors):
                raise pickle.UnpicklingError("it holds more than tensors")
        except Exception as error:  # damaged pickles raise whatever they like
            text = " ".join(str(error).split())
            raise WeightFileError(f"{os.fspath(path)}: not a file of tensors, or damaged ({text}).") from error
    return found


def _plain(file: IO[bytes]) -> Any:
    return _Unpickler(file).load()


def _fill(file: IO[bytes], storages: dict[str, _Storage], order: Any) -> None:
    """Read the numbers of each storage; they follow the pickles in the order of `order`."""
    if not isinstance(order, list) or sorted(order) != sorted(storages):
        raise pickle.UnpicklingError("its list of storages is another")
    for key in order:
        storage = storages[key]
        head = file.read(8)
        data = file.read(storage.size * storage.dtype.itemsize)
        if (
            len(head) < 8
            or struct.unpack("<q", head)[0] != storage.size
            or len(data) < storage.size * storage.dtype.itemsize
        ):
            raise pickle.UnpicklingError("it is cut short")
        storage.numbers = np.frombuffer(data, dtype=storage.dtype)
