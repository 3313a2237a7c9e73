"""Decoding pictures: upright, made small while they are decoded, and never more than is allowed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.extras import install
from projbank.features.exif import UPRIGHT, jpeg_segments, orientation, upright
from projbank.features.image_size import image_size
from projbank.features.media import MAX_PIXELS, MediaError, check_size, shrink

HEIC_NEEDED = "HEIC needs more packages"
_HEIF_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"))


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
