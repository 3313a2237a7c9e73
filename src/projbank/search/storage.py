"""Galleries in index files: whole, in several files together, or grown by what has changed since."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from projbank.integrity import IdentityError
from projbank.search.blocks import Block, NewCodes, Texts
from projbank.search.file import FileState, IndexFileError, Tensors, append_block, read_index, write_index
from projbank.search.gallery import Gallery


class Stored(NamedTuple):
    """The state of a file that a gallery agrees with, and how many of the gallery's blocks it holds."""

    state: FileState
    n_blocks: int


def write_gallery(path: str | os.PathLike[str], gallery: Gallery, settings: Mapping[str, str]) -> Stored:
    """Write a new file of one block, without what was removed."""
    state = write_index(path, gallery.n_bits, gallery.next_id, _tensors(gallery.compacted()), settings)
    return _settled(gallery, state)


def append_changes(stored: Stored, gallery: Gallery) -> Stored:
    """Append the codes that were added and the ids that were removed since the file was read or written."""
    content = gallery.compacted(stored.n_blocks)
    removed = gallery.removed
    if not len(content.ids) and not len(removed):
        return stored
    tensors = _tensors(content)
    state = append_block(stored.state, gallery.next_id, {"removed": removed, **tensors})
    return _settled(gallery, state)


def read_gallery(paths: Sequence[str | os.PathLike[str]]) -> tuple[Gallery, dict[str, str], Stored | None]:
    """Open one file or several as one gallery; return its settings, and the stored state of a single file."""
    gallery: Gallery | None = None
    settings: dict[str, str] = {}
    for path in paths:
        n_bits, next_id, own, blocks, state = read_index(path)
        if gallery is None:
            gallery, settings = Gallery(n_bits), own
        if n_bits != gallery.n_bits:
            raise IndexFileError(f"{path}: codes have {n_bits} bits, but those of {paths[0]} have {gallery.n_bits}.")
        one, other = own.get("made_by"), settings.get("made_by")
        if one != other:
            raise IdentityError(f"{path}: codes were made by {one}, but those of {paths[0]} by {other}.")
        try:
            _take(gallery, blocks, next_id)
        except ValueError as error:
            raise IndexFileError(f"{path}: {error}") from error
    if gallery is None:
        raise ValueError("path must name at least one index file. Got none.")
    return gallery, settings, _settled(gallery, state) if len(paths) == 1 else None


def _take(gallery: Gallery, blocks: list[Tensors], next_id: int) -> None:
    """Add the blocks of a file to a gallery that may hold those of others."""
    first, shift = len(gallery.blocks), 0
    is_named = any("names.offsets" in tensors for tensors in blocks)
    if first:
        if is_named != gallery.named:
            raise ValueError("its ids are texts, or numbers, unlike those of the other files.")
        shift = gallery.next_id if is_named else 0
    for tensors in blocks:
        gone = tensors.get("removed", np.empty(0, np.int64)) + shift
        gallery.drop(gone, first)
        names, payload = (
            Texts(tensors[f"{what}.offsets"], tensors.get(f"{what}.letters", np.empty(0, np.uint8)))
            if f"{what}.offsets" in tensors
            else None
            for what in ("names", "payload")
        )
        ids = tensors["ids"] + shift if shift else tensors["ids"]
        block = Block(NewCodes(tensors["codes"], ids, names, payload))
        gallery.append(block, next_id + shift, distinct_from=first)


def _settled(gallery: Gallery, state: FileState) -> Stored:
    gallery.settle()
    return Stored(state, len(gallery.blocks))


def _tensors(content: NewCodes) -> Tensors:
    """Arrays of one block, those of wide numbers first, so that each begins where it may be read in place."""
    texts = {
        what: Texts.of(column)
        for what, column in (("names", content.names), ("payload", content.payload))
        if column is not None
    }
    return (
        {"ids": content.ids}
        | {f"{what}.offsets": column.offsets for what, column in texts.items()}
        | {"codes": content.codes}
        | {f"{what}.letters": column.letters for what, column in texts.items()}
    )
