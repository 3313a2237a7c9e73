"""Pictures and videos: which files they are, and their decoding: upright, made small, never more than is allowed."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.extras import install
from projbank.params import check_int

IMAGE_SUFFIXES = (
    *(".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"),
)
VIDEO_SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm")
MAX_PIXELS = 100_000_000
"""Larger pictures and frames are refused before they are decoded: a small file may ask for all memory."""

HEIC_NEEDED = "HEIC needs more packages"
_HEIF_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"))

ORIENTATION = 0x0112
UPRIGHT = 1
_EXIF = b"Exif\0\0"

MAX_SEGMENTS = 65_536
"""Segments of a JPEG file, or bytes of padding between them, that are looked at."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_NETPBM = re.compile(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,10})(?:\s|#[^\n]*\n)+(\d{1,10})\s")
_TIFF_NUMBERS = {3: "H", 4: "I", 16: "Q"}


class MediaError(ValueError):
    """A file can't be decoded."""


def video_frames(
    path: str | os.PathLike[str], name: str, max_side: int | None = None, max_pixels: int = MAX_PIXELS
) -> Iterator[NDArray[np.uint8]]:
    """Decode a video file frame by frame, each grey (h, w) uint8, made smaller as by `shrink`."""
    import cv2

    capture = cv2.VideoCapture(os.fspath(path))
    try:
        sides = [int(capture.get(side)) for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)]
        check_size(name, sides[0], sides[1], max_pixels)
        found = False
        while True:
            try:
                going, frame = capture.read()
            except cv2.error as error:
                raise MediaError(f"{name}: can't be decoded as a video ({error.err}).") from error
            if not going:
                break
            found = True
            grey = frame if frame.ndim == 2 else cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
            yield shrink(np.asarray(grey, dtype=np.uint8), max_side)
        if not found:
            raise MediaError(f"{name}: can't be decoded as a video.")
    finally:
        capture.release()


def shrink(image: NDArray[np.uint8], max_side: int | None) -> NDArray[np.uint8]:
    """Scale an image down so that its longer side is `max_side`; None and small images leave it as it is."""
    if max_side is None:
        return image
    import cv2

    check_int("shrink", "max_side", max_side, 1)
    longest = max(image.shape[:2])
    if longest <= max_side:
        return image
    height, width = (max(1, round(side * max_side / longest)) for side in image.shape[:2])
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def check_size(name: str, width: int, height: int, max_pixels: int) -> None:
    """Raise MediaError for a picture of more than `max_pixels` pixels."""
    if width * height > max_pixels:
        raise MediaError(f"{name}: is too large: {width} x {height} pixels, at most {max_pixels} (max_pixels).")


class Photo(NamedTuple):
    """A decoded photo, upright: uint8 (h, w) grey or (h, w, 3) blue, green, red."""

    image: NDArray[np.uint8]
    width: int
    height: int
    """Size of the whole picture, upright; `image` may be smaller."""
    orientation: int = UPRIGHT
    """EXIF's number for how the stored picture is turned."""


def read_photo(
    data: bytes, name: str, side: int | None = None, *, colour: bool = True, max_pixels: int = MAX_PIXELS
) -> Photo:
    """Decode a picture (JPEG, PNG, WebP, GIF, TIFF, BMP, PGM; HEIC with the extra), its longer side at most `side`.

    Raises MediaError where it can't be decoded, is cut short, or its header tells of more than `max_pixels` pixels.
    """
    if data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS:
        return _read_heif(data, name, side, colour, max_pixels)
    size = image_size(data)
    if size is None or not all(size):
        raise MediaError(f"{name}: can't be decoded as an image.")
    check_size(name, *size, max_pixels)
    if data.startswith(b"\xff\xd8") and _is_cut(data):
        raise MediaError(f"{name}: is cut short.")
    turned = orientation(data)
    image = shrink(_decode(data, name, _flag(data, max(size), side, colour)), side)
    width, height = size if turned < 5 else size[::-1]
    return Photo(upright(image, turned), width, height, turned)


def _decode(data: bytes, name: str, flag: int) -> NDArray[np.uint8]:
    import cv2

    try:
        image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), flag)
    except cv2.error as error:
        raise MediaError(f"{name}: can't be decoded as an image ({error.err}).") from error
    if image is None:
        raise MediaError(f"{name}: can't be decoded as an image.")
    return np.asarray(image, dtype=np.uint8)


def _flag(data: bytes, longest: int, side: int | None, colour: bool) -> int:
    """OpenCV's flag; a JPEG is decoded at a half, quarter or eighth where that is still at least `side`."""
    import cv2

    flag = cv2.IMREAD_COLOR if colour else cv2.IMREAD_GRAYSCALE
    if side is not None and data.startswith(b"\xff\xd8"):
        for part in (8, 4, 2):
            if longest // part >= side:
                name = f"IMREAD_REDUCED_{'COLOR' if colour else 'GRAYSCALE'}_{part}"
                flag = getattr(cv2, name)
                break
    return int(flag) | cv2.IMREAD_IGNORE_ORIENTATION


def _is_cut(data: bytes) -> bool:
    """Whether a JPEG file has no end mark behind its picture; OpenCV would fill what is missing with grey."""
    scan = max((start for _, start, _ in jpeg_segments(data)), default=0)
    return data.rfind(b"\xff\xd9") < scan


def _read_heif(data: bytes, name: str, side: int | None, colour: bool, max_pixels: int) -> Photo:
    import cv2

    try:
        import pillow_heif
    except ImportError:
        raise MediaError(f"{name}: {HEIC_NEEDED}: {install('heic')}.") from None
    try:
        heif: Any = pillow_heif.open_heif(data, convert_hdr_to_8bit=True)
        width, height = heif.size
        check_size(name, width, height, max_pixels)
        image = np.asarray(heif.to_pillow().convert("RGB" if colour else "L"), dtype=np.uint8)
    except MediaError:
        raise
    except Exception as error:  # its decoder raises whatever it likes on damaged bytes
        raise MediaError(f"{name}: can't be decoded as an image ({error}).") from error
    if colour:
        image = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), dtype=np.uint8)
    return Photo(shrink(image, side), width, height)


def orientation(data: bytes) -> int:
    """Return EXIF's orientation, 1 to 8; 1 (upright) where there is none, or it is damaged."""
    for block in _exif_blocks(data):
        try:
            value = _tiff_tags(block).get(ORIENTATION, 0)
        except struct.error:
            continue
        if 1 <= value <= 8:
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


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, JPEG, WebP, TIFF, BMP, GIF or PGM/PPM file; None if it is none of them."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _unpack(">II", data, 16)
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if tags := _tiff_tags(data):
            return (tags[256], tags[257]) if {256, 257} <= set(tags) else None
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
    """Size in the first segment that starts a frame."""
    for marker, start, _ in jpeg_segments(data):
        if marker in _JPEG_FRAMES:
            height, width = _unpack(">HH", data, start + 1)
            return width, height
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


def _tiff_tags(data: bytes) -> dict[int, int]:
    """Whole numbers in the first directory of a TIFF file or of EXIF data, by their tags; BigTIFF has longer fields."""
    if data[:4] not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return {}
    order, big = "<" if data[:2] == b"II" else ">", 0x2B in data[2:4]
    (at,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
    (n_tags,) = struct.unpack_from(order + ("Q" if big else "H"), data, at)
    found = {}
    for i in range(min(n_tags, 4096)):
        start = at + (8 + 20 * i if big else 2 + 12 * i)
        tag, kind = struct.unpack_from(order + "HH", data, start)
        if kind in _TIFF_NUMBERS:
            (found[tag],) = struct.unpack_from(order + _TIFF_NUMBERS[kind], data, start + (12 if big else 8))
    return found
