"""Numba's cache files with checksums: what a crash has damaged is compiled anew instead of ending the process."""

from __future__ import annotations

import pickle
from typing import Any

import xxhash
from numba.core.caching import IndexDataCacheFile

_DIGITS = 16


class CheckedCacheFile(IndexDataCacheFile):
    """Numba's index and data files, each with the checksum of its pickle behind it.

    A file that does not agree with its checksum counts as missing. Nothing in it is unpickled.
    """

    def _dump(self, obj: Any) -> bytes:
        data = super()._dump(obj)
        return data + _digest(data)

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            return pickle.loads(_checked(file.read()))

    def _load_index(self) -> dict[Any, str]:
        try:
            with open(self._index_path, "rb") as file:
                data = file.read()
            version = pickle.dumps(self._version, protocol=-1)
            if not data.startswith(version):  # of another version of Numba, or damaged
                return {}
            stamp, overloads = pickle.loads(_checked(data[len(version) :]))
        except OSError:
            return {}
        return overloads if stamp == self._source_stamp else {}


def _digest(data: bytes) -> bytes:
    return xxhash.xxh3_64(data).hexdigest().encode()


def _checked(data: bytes) -> bytes:
    content, digits = data[:-_DIGITS], data[-_DIGITS:]
    if digits != _digest(content):
        raise OSError("a file of the cache is damaged")  # what Numba takes for a missing file
    return content
