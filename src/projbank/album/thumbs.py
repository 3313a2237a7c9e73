"""Small pictures of the photos of an album, made when they are first asked for, and sheets of what was found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from projbank.album.album import Album, Hit, gone
from projbank.album.describe import digest, photos_in
from projbank.album.update import THUMBNAILS
from projbank.features.media import MediaError, read_photo
from projbank.features.readers import Item
from projbank.files import atomic_path, check_output

THUMB_SIDE = 320
QUALITY = 82

COLUMNS, SIDE, MARGIN, TEXT = 4, 240, 12, 22
PAPER, INK = 255, 40
LETTERS = 30


def thumbnail(album: Album, content: int) -> bytes:
    """JPEG of a content, its longer side at most 320 pixels; FileNotFoundError where no file has it any more."""
    with album.busy:
        known = album.store.content(content)
    if known is None:
        raise gone(content)
    key = known.hash.hex()
    path = album.folder / THUMBNAILS / key[:2] / f"{key}.jpg"
    if path.is_file():
        return path.read_bytes()
    data = photo_bytes(album, content, known.hash)
    made = small(data, THUMB_SIDE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_bytes(made)
    return made


def photo_bytes(album: Album, content: int, key: bytes) -> bytes:
    """Bytes of a photo of the album, from whichever file still has them; FileNotFoundError where none has."""
    root = Path(album.root).resolve()
    for file in album.current_files(content):
        path = (root / file.path).resolve()
        if not path.is_relative_to(root):  # it has become a link out of the album
            continue
        try:
            data = photos_in(root).read(Item(path.relative_to(root).as_posix()))
        except OSError:
            continue
        if digest(data) == key:
            return data
    raise gone(content)


def small(data: bytes, side: int) -> bytes:
    """A picture file as a JPEG, upright, its longer side at most `side`."""
    import cv2

    done, encoded = cv2.imencode(".jpg", read_photo(data, "photo", side).image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    if not done:
        raise MediaError("photo: can't be made smaller.")
    return np.asarray(encoded, dtype=np.uint8).tobytes()


def check_sheet(path: Path, album: Album, inputs: Iterable[Path]) -> None:
    """Raise where a sheet can't be written; one that would replace a photo of the album is refused."""
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise ValueError(f"cannot write {path}: a sheet ends in .png or .jpg.")
    check_output(path, kind="picture", inputs=inputs)
    if path.exists() and path.resolve().is_relative_to(album.root.resolve()):
        raise FileExistsError(f"cannot write {path}: it is a file of the album, which would be lost.")


def write_sheet(path: Path, album: Album, hits: list[Hit]) -> None:
    """Draw the hits in rows of four."""
    import cv2

    done, encoded = cv2.imencode(path.suffix.lower(), draw_sheet(album, hits))
    if not done:
        raise ValueError(f"cannot write {path}: the sheet is too large.")
    with atomic_path(path, kind="picture") as temporary:
        temporary.write_bytes(np.asarray(encoded).tobytes())


def draw_sheet(album: Album, hits: list[Hit]) -> NDArray[np.uint8]:
    """Return the sheet, (h, w, 3) blue, green, red."""
    import cv2

    columns = max(1, min(COLUMNS, len(hits)))
    rows = max(1, -(-len(hits) // columns))
    width, height = SIDE + MARGIN, SIDE + MARGIN + TEXT
    sheet = np.full((rows * height + MARGIN, columns * width + MARGIN, 3), PAPER, dtype=np.uint8)
    for i, hit in enumerate(hits):
        top, left = MARGIN + i // columns * height, MARGIN + i % columns * width
        image = read_photo(thumbnail(album, hit.content), hit.path, SIDE).image
        h, w = image.shape[:2]
        y, x = top + (SIDE - h) // 2, left + (SIDE - w) // 2
        sheet[y : y + h, x : x + w] = image
        text = f"{hit.score:.2f} {PurePosixPath(hit.path).name}".encode("ascii", "replace").decode()
        text = text if len(text) <= LETTERS else text[: LETTERS - 2] + ".."
        place = (left, top + SIDE + TEXT - 6)
        cv2.putText(sheet, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.42, (INK, INK, INK), 1, cv2.LINE_AA)
    return sheet
