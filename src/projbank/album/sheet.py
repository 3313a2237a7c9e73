"""A contact sheet: photos that were found, side by side, with their scores and names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from projbank.album.album import Album, Hit
from projbank.album.thumbs import thumbnail
from projbank.features.photos import read_photo
from projbank.files import atomic_path, check_output

COLUMNS, SIDE, MARGIN, TEXT = 4, 240, 12, 22
PAPER, INK = 255, 40
LETTERS = 30


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
