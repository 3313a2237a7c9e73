"""Width and height of an image file, read from its header without decoding it."""

from __future__ import annotations

import re
import struct

MAX_SEGMENTS = 65_536
"""Segments of a JPEG file, or bytes of padding between them, that are looked at."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset((0x01, *range(0xD0, 0xD8)))
_NETPBM = re.compile(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,10})(?:\s|#[^\n]*\n)+(\d{1,10})\s")
_TIFF_NUMBERS = {3: "H", 4: "I", 16: "Q"}


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, JPEG, WebP, TIFF, BMP, GIF or PGM/PPM file; None if it is none of them."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _unpack(">II", data, 16)
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
            return _tiff(data)
        if data[:2] == b"BM":
            return _unpack("<HH", data, 18) if data[14:18] == b"\x0c\0\0\0" else _unpack("<ii", data, 18)
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return _unpack("<HH", data, 6)
        found = _NETPBM.match(data)
        return (int(found[1]), int(found[2])) if found else None
    except (struct.error, IndexError):  # the header is cut off
        return None


def _unpack(layout: str, data: bytes, start: int) -> tuple[int, int]:
    width, height = struct.unpack_from(layout, data, start)
    return abs(width), abs(height)  # a BMP from top to bottom has a negative height


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Walk over the segments to the first that starts a frame."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = _unpack(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = _unpack("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _tiff(data: bytes) -> tuple[int, int] | None:
    """Look up the tags 256 (width) and 257 (height) in the first directory; BigTIFF has longer fields."""
    order = "<" if data[:2] == b"II" else ">"
    big = 0x2B in data[2:4]
    (at,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
    (n_tags,) = struct.unpack_from(order + ("Q" if big else "H"), data, at)
    at += 8 if big else 2
    sides = {}
    for i in range(min(n_tags, 4096)):
        start = at + i * (20 if big else 12)
        tag, kind = struct.unpack_from(order + "HH", data, start)
        if tag in (256, 257) and kind in _TIFF_NUMBERS:
            (sides[tag],) = struct.unpack_from(order + _TIFF_NUMBERS[kind], data, start + (12 if big else 8))
    return (sides[256], sides[257]) if len(sides) == 2 else None
