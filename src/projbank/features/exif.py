"""Which way up a photo is: the EXIF orientation of a JPEG, PNG or WebP file, read without decoding it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from projbank.features.image_size import MAX_SEGMENTS

ORIENTATION = 0x0112
UPRIGHT = 1
_EXIF = b"Exif\0\0"


def orientation(data: bytes) -> int:
    """Return EXIF's orientation, 1 to 8; 1 (upright) where there is none, or it is damaged."""
    for block in _exif_blocks(data):
        try:
            value = _tag(block)
        except struct.error:
            continue
        if value is not None and 1 <= value <= 8:
            return value
    return UPRIGHT


def upright(image: NDArray, value: int) -> NDArray:
    """Turn and mirror an image of EXIF orientation `value`, so that it is the right way up."""
    if value >= 5:
        image = image.swapaxes(0, 1)
    if value in (3, 4, 7, 8):
        image = image[::-1]
    if value in (2, 3, 6, 7):
        image = image[:, ::-1]
    return np.ascontiguousarray(image)


def _exif_blocks(data: bytes) -> Iterator[bytes]:
    if data.startswith(b"\xff\xd8"):
        for marker, start, stop in jpeg_segments(data):
            if marker == 0xE1 and data[start : start + 6] == _EXIF:
                yield data[start + 6 : stop]
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        yield from _chunks(data, 8, ">", b"eXIf", length_first=True)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        for block in _chunks(data, 12, "<", b"EXIF", length_first=False):
            yield block.removeprefix(_EXIF)


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield marker, start and end of the segments of a JPEG file, up to the first that starts a scan."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        if at + 4 > len(data) or data[at] != 0xFF:
            return
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:  # markers without a length
            at += 2
            continue
        stop = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        yield marker, at + 4, stop
        if marker == 0xDA:
            return
        at = stop


def _chunks(data: bytes, at: int, order: str, wanted: bytes, *, length_first: bool) -> Iterator[bytes]:
    """Contents of the wanted chunks of a PNG (length before name, checksum behind) or RIFF file (even lengths)."""
    for _ in range(MAX_SEGMENTS):
        if at + 8 > len(data):
            return
        name = data[at + 4 : at + 8] if length_first else data[at : at + 4]
        (length,) = struct.unpack_from(order + "I", data, at if length_first else at + 4)
        if name == wanted:
            yield data[at + 8 : at + 8 + length]
        at += 8 + length + (4 if length_first else length % 2)


def _tag(block: bytes) -> int | None:
    """Value of the orientation tag in the first directory of a TIFF structure."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None:
        return None
    (at,) = struct.unpack_from(order + "I", block, 4)
    (n_tags,) = struct.unpack_from(order + "H", block, at)
    for i in range(min(n_tags, 4096)):
        tag, kind, _ = struct.unpack_from(order + "HHI", block, at + 2 + 12 * i)
        if tag == ORIENTATION and kind == 3:
            (value,) = struct.unpack_from(order + "H", block, at + 10 + 12 * i)
            return int(value)
    return None
