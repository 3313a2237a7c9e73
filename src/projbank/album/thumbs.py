"""Small pictures of the photos of an album, made when they are first asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from projbank.album.album import Album
from projbank.album.describe import digest, read_file
from projbank.album.update import THUMBNAILS
from projbank.features.media import MediaError
from projbank.features.photos import read_photo
from projbank.files import atomic_path

SIDE = 320
QUALITY = 82


def thumbnail(album: Album, content: int) -> bytes:
    """JPEG of a content, its longer side at most 320 pixels; KeyError where no file has it any more."""
    with album.busy:
        known = album.store.content(content)
    if known is None:
        raise KeyError(content)
    key = known.hash.hex()
    path = album.folder / THUMBNAILS / key[:2] / f"{key}.jpg"
    if path.is_file():
        return path.read_bytes()
    data = photo_bytes(album, content, known.hash)
    made = small(data, SIDE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_bytes(made)
    return made


def photo_bytes(album: Album, content: int, key: bytes) -> bytes:
    """Bytes of a photo of the album, from whichever file still has them; KeyError where none has."""
    root = Path(album.root).resolve()
    for file in album.current_files(content):
        path = (root / file.path).resolve()
        if not path.is_relative_to(root):  # it has become a link out of the album
            continue
        try:
            data = read_file(root, path.relative_to(root).as_posix())
        except OSError:
            continue
        if digest(data) == key:
            return data
    raise KeyError(content)


def small(data: bytes, side: int, name: str = "photo") -> bytes:
    """A picture file as a JPEG, upright, its longer side at most `side`."""
    import cv2

    done, encoded = cv2.imencode(".jpg", read_photo(data, name, side).image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    if not done:
        raise MediaError(f"{name}: can't be made smaller.")
    return np.asarray(encoded, dtype=np.uint8).tobytes()
