"""Example retrievals as one picture, for documents that can't hold a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.paper.report.content import Gallery, Picture

SIDE, FRAME, GAP, HEAD = 62, 3, 14, 22
RIGHT, WRONG, NEUTRAL, WHITE = (70, 122, 29), (43, 54, 179), (200, 200, 200), (255, 255, 255)  # blue, green, red
LARGEST = 140_000
"""Bytes of a sheet at most, as long as that can be had by JPEG's quality."""


def gallery_sheet(gallery: Gallery) -> bytes:
    """All queries below each other as JPEG: green frames are right, red ones with a slash are wrong."""
    import cv2

    lines = []
    for query, strips in gallery.queries:
        cells = [_framed(query), _space(GAP)]
        for _, pictures in strips:
            cells += [*map(_framed, pictures), _space(GAP)]
        lines.append(np.concatenate(cells, axis=1))
    sheet = np.concatenate(lines)
    head = np.full((HEAD, sheet.shape[1], 3), 255, np.uint8)
    cell, x = SIDE + 2 * FRAME + 2, SIDE + 2 * FRAME + 2 + GAP
    titles = [("query", 2)]
    for title, pictures in gallery.queries[0][1]:
        titles.append((title, x + 2))
        x += len(pictures) * cell + GAP
    for title, at in titles:
        cv2.putText(head, title, (at, HEAD - 7), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (0, 0, 0), 1, cv2.LINE_AA)
    whole = np.concatenate([head, sheet])
    for quality in (85, 75, 65, 55, 45, 35):
        data = cv2.imencode(".jpg", whole, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
        if len(data) <= LARGEST:
            break
    return data


def _framed(picture: Picture) -> NDArray[np.uint8]:
    import cv2

    image: Any = cv2.imread(str(picture.path), cv2.IMREAD_COLOR) if picture.path.exists() else None
    if image is None:
        image = np.full((SIDE, SIDE, 3), 230, np.uint8)
    scale = SIDE / max(image.shape[:2])
    small = cv2.resize(image, (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))))
    square = np.full((SIDE, SIDE, 3), 255, np.uint8)
    top, left = (SIDE - small.shape[0]) // 2, (SIDE - small.shape[1]) // 2
    square[top : top + small.shape[0], left : left + small.shape[1]] = small
    if picture.right is False:  # not by colour alone
        cv2.line(square, (SIDE - 12, SIDE - 2), (SIDE - 2, SIDE - 12), WRONG, 2, cv2.LINE_AA)
    colour = NEUTRAL if picture.right is None else RIGHT if picture.right else WRONG
    framed = cv2.copyMakeBorder(square, FRAME, FRAME, FRAME, FRAME, cv2.BORDER_CONSTANT, value=colour)
    return np.asarray(cv2.copyMakeBorder(framed, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=WHITE), np.uint8)


def _space(width: int) -> NDArray[np.uint8]:
    return np.full((SIDE + 2 * FRAME + 2, width, 3), 255, np.uint8)
