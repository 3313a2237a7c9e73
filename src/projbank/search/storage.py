"""Galleries in index files: whole, in several files together, or grown by what has changed since."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from projbank.integrity import IdentityError
from projbank.search.blocks import Block, NewCodes, Texts
from projbank.search.file import FileState, IndexFileError, Tensors, append_block, read_index, write_index
from projbank.search.gallery import Gallery

if TYPE_CHECKING:
    from projbank.search.lists import Lists


class Stored(NamedTuple):
    """The state of a file that a gallery agrees with, and those of the gallery's blocks that it holds."""

    state: FileState
    blocks: list[Block]

    def can_grow(self, gallery: Gallery) -> bool:
        """Whether what has changed can be appended: the blocks in the file are still those of the gallery."""
        n = len(self.blocks)
        return self.state.can_grow and all(a is b for a, b in zip(self.blocks, gallery.blocks[:n], strict=True))


def write_gallery(path: str | os.PathLike[str], gallery: Gallery, settings: Mapping[str, str]) -> Stored:
    """Write a new file of one block, without what was removed."""
    tensors, settings = _tensors(gallery.compacted()), dict(settings)
    if gallery.is_one_block and gallery.blocks[0].lists is not None:
        lists = gallery.blocks[0].lists
        words = lists.words.view(np.int64).reshape(len(lists.words), -1)
        tensors = {"lists.words": words, "lists.starts": lists.row_starts} | tensors | {"lists.centres": lists.centres}
        settings["reaches"] = json.dumps(lists.reaches)
    return _settled(gallery, write_index(path, gallery.n_bits, gallery.next_id, tensors, settings))


def check_unchanged(stored: Stored) -> Path:
    """Return the path of a file that is to be written anew; IndexFileError if it was changed since it was opened."""
    path = stored.state.path
    if read_index(path).state != stored.state:
        raise IndexFileError(f"{path}: was changed since it was opened; load it again and repeat the change.")
    return path


def append_changes(stored: Stored, gallery: Gallery) -> Stored:
    """Append the codes that were added and the ids that were removed since the file was read or written."""
    content = gallery.compacted(len(stored.blocks))
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
            _take(gallery, blocks, next_id, own.get("reaches"))
        except ValueError as error:
            raise IndexFileError(f"{path}: {error}") from error
    if gallery is None:
        raise ValueError("path must name at least one index file. Got none.")
    return gallery, settings, _settled(gallery, state) if len(paths) == 1 else None


def _take(gallery: Gallery, blocks: list[Tensors], next_id: int, reaches: str | None) -> None:
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
        if "lists.words" in tensors:
            block.lists = _lists(tensors, reaches)
        gallery.append(block, next_id + shift, distinct_from=first)


def _lists(tensors: Tensors, reaches: str | None) -> Lists:
    from projbank.search.lists import Lists, Reach

    words, starts = tensors["lists.words"], np.array(tensors["lists.starts"])
    sizes = np.diff(starts)
    if (
        starts.shape != (len(tensors["lists.centres"]) + 1,)
        or starts[0] != 0
        or starts[-1] != len(tensors["ids"])
        or np.any(sizes < 0)
        or len(words) != np.sum((sizes + 7) // 8)
    ):
        raise ValueError("damaged: its lists do not fit its codes.")
    parsed = {int(k): Reach(int(near), tuple(slacks)) for k, (near, slacks) in json.loads(reaches or "{}").items()}
    return Lists(tensors["lists.centres"], starts, words.view(np.uint64).reshape(len(words), -1, 8), parsed)


def _settled(gallery: Gallery, state: FileState) -> Stored:
    gallery.settle()
    return Stored(state, list(gallery.blocks))


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
