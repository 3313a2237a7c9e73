"""Gallery: all blocks of an index, in memory or in files, and how the user's ids lead to their codes and back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, clear_padding, code_bytes
from projbank.integrity import IdentityError
from projbank.search.file import FileState, IndexFileError, Tensors, append_block, read_index, write_index
from projbank.search.ids import are_texts, check_ids, check_texts, encode_payload, new_ids, refuse
from projbank.search.scan import Block, Column, NewCodes, Part, Texts

if TYPE_CHECKING:
    from projbank.search.lists import Lists

Located = list[tuple[Block, NDArray[np.int64], NDArray[np.int64]]]
"""Blocks, rows of each, and the places among the numbers asked for that they answer."""


class Gallery:
    """Codes in blocks. Inside, a code is known by a whole number: the user's id, or a running number for texts.

    Parameters
    ----------
    n_bits : length of a code

    Attributes
    ----------
    state : the state of the file that the gallery was read from or written to, if it is a single one
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self.blocks: list[Block] = []
        self.next_id = 0
        self.state: FileState | None = None
        self._stored: list[Block] = []
        self._open = False
        self._numbers: dict[str, int] | None = None
        self._removed: list[NDArray[np.int64]] = []

    def __len__(self) -> int:
        return sum(block.n_live for block in self.blocks)

    @property
    def named(self) -> bool:
        """Whether ids are texts."""
        return any(block.names is not None for block in self.blocks)

    @property
    def is_one_block(self) -> bool:
        """Whether all codes stand in one block from which nothing was removed."""
        return len(self.blocks) == 1 and self.blocks[0].n_live == len(self.blocks[0])

    def live_blocks(self) -> list[Block]:
        """Blocks that hold any codes."""
        return [block for block in self.blocks if block.n_live]

    def replace(self, block: Block) -> None:
        """Let one block stand for all of them; it holds what they hold."""
        self.blocks, self._open, self._numbers = [block], False, None

    def check(self, codes: ArrayLike, ids: Any, payload: Iterable[Any] | None) -> NewCodes:
        """Return what is to be added, or raise an error that says why it can't be."""
        array = clear_padding(check_codes(codes, self.n_bits), self.n_bits)
        texts = None if payload is None else encode_payload(payload, len(array))
        named = self.named if len(self) else None
        return NewCodes(array, *new_ids(ids, len(array), self.next_id, named, self.find, "index"), texts)

    def add(self, new: NewCodes) -> None:
        """Add checked codes, to the last block or, after a change of the file, to a new one."""
        if not self._open:
            self.blocks.append(Block(NewCodes(new.codes[:0], new.ids[:0])))
            self._open = True
        self.blocks[-1].append(new)
        if self._numbers is not None and new.names is not None:
            self._numbers.update(zip(new.names, new.ids.tolist(), strict=True))
        self.next_id = max(self.next_id, int(new.ids.max(initial=-1)) + 1)

    def take(self, block: Block, next_id: int, n_others: int = 0) -> None:
        """Take a block as it is; the first `n_others` blocks, those of other files, must hold none of its ids."""
        others = Gallery(self.n_bits)
        others.blocks = self.blocks[:n_others]
        if n_others and len(block):
            ids: Any = block.part.ids if block.names is None else list(block.names)
            refuse(others.find(ids) >= 0, ids, "new. Got {}, which the index already holds")
        self.blocks.append(block)
        self.next_id = max(self.next_id, next_id)
        self._open, self._numbers = False, None

    def remove(self, ids: Any) -> None:
        """Remove the codes of the given ids, all or none."""
        numbers = self.numbers(ids, distinct=True, tail="; nothing was removed")
        self._drop(numbers, 0)
        self._removed.append(numbers)
        if self._numbers is not None:
            for name in check_texts(ids):
                del self._numbers[name]

    def numbers(self, ids: Any, *, distinct: bool = False, tail: str = "") -> NDArray[np.int64]:
        """Numbers of the user's ids, all of which must be known."""
        numbers = self.find(ids, distinct=distinct)
        refuse(numbers < 0, np.asarray(ids), "in the index. Got {}, which it does not hold" + tail)
        return numbers

    def find(self, ids: Any, *, distinct: bool = False) -> NDArray[np.int64]:
        """Numbers of the user's ids, -1 for unknown ones."""
        if are_texts(ids):
            if self._numbers is None:
                self._numbers = {
                    block.names[row]: int(block.part.ids[row])
                    for block in self.blocks
                    if block.names is not None
                    for row in block.live_rows().tolist()
                }
            names = check_texts(ids) if distinct else ids
            known = self._numbers if self.named else {}
            return np.array([known.get(name, -1) for name in names], dtype=np.int64)
        numbers = check_ids(ids) if distinct else _whole(ids)
        if self.named and len(numbers):
            raise TypeError(f"ids must be texts, as those that the index holds. Got dtype {numbers.dtype}.")
        return np.where(self.rows_of(numbers) >= 0, numbers, -1)

    def labels(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the user's ids of numbers: the numbers themselves, or texts as objects with None for -1."""
        if not self.named:
            return numbers
        flat = numbers.reshape(-1)
        labels = np.full(len(flat), None, dtype=object)
        for block, rows, places in self._located(flat):
            names: Column = block.names if block.names is not None else []
            labels[places] = [names[row] for row in rows.tolist()]
        return labels.reshape(numbers.shape)

    def codes_of(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the codes of known numbers."""
        codes = np.empty((len(numbers), code_bytes(self.n_bits)), np.uint8)
        for block, rows, places in self._located(numbers):
            codes[places] = block.part.codes[rows]
        return codes

    def payload_of(self, numbers: NDArray[np.int64]) -> list[Any]:
        """Return the payload of known numbers, None where none was given."""
        values: list[Any] = [None] * len(numbers)
        for block, rows, places in self._located(numbers):
            if block.payload is not None:
                for row, place in zip(rows.tolist(), places.tolist(), strict=True):
                    values[place] = json.loads(block.payload[row])
        return values

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each number when the rows of all blocks are counted through, -1 for an unknown one."""
        rows = np.full(len(numbers), -1, np.int64)
        starts = dict(zip(map(id, self.blocks), np.cumsum([0, *map(len, self.blocks)]).tolist(), strict=False))
        for block, own, places in self._located(numbers):
            rows[places] = own + starts[id(block)]
        return rows

    def parts(self, allow: Any = None) -> list[Part]:
        """All codes for the scans, or only those of the given ids, or where a mask over all codes is true."""
        parts = [block.part for block in self.live_blocks()]
        if allow is None:
            return parts
        wanted = np.asarray(allow) if not are_texts(allow) else allow
        if getattr(wanted, "dtype", None) == np.bool_:
            return self._masked(wanted)
        found = self.find(wanted)
        located = self._located(found[found >= 0])
        return [block.part._replace(rows=np.unique(rows)) for block, rows, _ in located]

    def compacted(self, first: int = 0) -> NewCodes:
        """All codes from block `first` on that were not removed; the arrays themselves if they are one whole block."""
        contents = [block.content() for block in self.blocks[first:] if block.n_live]
        if len(contents) == 1:
            return contents[0]
        names, payload = None, None
        if any(content.names is not None for content in contents):
            names = [name for content in contents for name in content.names or []]
        if any(content.payload is not None for content in contents):
            payload = [text for content in contents for text in content.payload or ["null"] * len(content.ids)]
        no_codes, no_ids = np.empty((0, code_bytes(self.n_bits)), np.uint8), np.empty(0, np.int64)
        codes = np.concatenate([no_codes, *(content.codes for content in contents)])
        return NewCodes(codes, np.concatenate([no_ids, *(content.ids for content in contents)]), names, payload)

    def write(self, path: str | os.PathLike[str], settings: Mapping[str, str]) -> None:
        """Write a new file of one block, without what was removed."""
        tensors, settings = _tensors(self.compacted()), dict(settings)
        if self.is_one_block and self.blocks[0].lists is not None:
            lists = self.blocks[0].lists
            words = lists.words.view(np.int64).reshape(len(lists.words), -1)
            before = {"lists.words": words, "lists.starts": lists.row_starts}
            tensors = before | tensors | {"lists.centres": lists.centres}
            settings["reaches"] = json.dumps(lists.reaches)
        self._settle(write_index(path, self.n_bits, self.next_id, tensors, settings))

    def append_changes(self) -> bool:
        """Append what was added and removed since the file was read or written; False where its blocks are others."""
        n = len(self._stored)
        kept = all(a is b for a, b in zip(self._stored, self.blocks[:n], strict=True))
        if self.state is None or not self.state.can_grow or not kept:
            return False
        content, removed = self.compacted(n), np.concatenate([np.empty(0, np.int64), *self._removed])
        if len(content.ids) or len(removed):
            self._settle(append_block(self.state, self.next_id, {"removed": removed, **_tensors(content)}))
        return True

    @classmethod
    def read(cls, paths: Sequence[str | os.PathLike[str]]) -> tuple[Gallery, dict[str, str]]:
        """Open one file or several as one gallery; return its settings, too."""
        gallery: Gallery | None = None
        settings: dict[str, str] = {}
        for path in paths:
            n_bits, next_id, own, blocks, state = read_index(path)
            if gallery is None:
                gallery, settings = cls(n_bits), own
            if n_bits != gallery.n_bits:
                raise IndexFileError(f"{path}: codes have {n_bits} bits, but those of {paths[0]} {gallery.n_bits}.")
            one, other = own.get("made_by"), settings.get("made_by")
            if one != other:
                raise IdentityError(f"{path}: codes were made by {one}, but those of {paths[0]} by {other}.")
            try:
                gallery._take_file(blocks, next_id, own.get("reaches"))
            except ValueError as error:
                raise IndexFileError(f"{path}: {error}") from error
        if gallery is None:
            raise ValueError("path must name at least one index file. Got none.")
        if len(paths) == 1:
            gallery._settle(state)
        return gallery, settings

    def _take_file(self, blocks: list[Tensors], next_id: int, reaches: str | None) -> None:
        """Add the blocks of a file to those of others."""
        first, shift = len(self.blocks), 0
        is_named = any("names.offsets" in tensors for tensors in blocks)
        if first:
            if is_named != self.named:
                raise ValueError("its ids are texts, or numbers, unlike those of the other files.")
            shift = self.next_id if is_named else 0
        for tensors in blocks:
            self._drop(tensors.get("removed", np.empty(0, np.int64)) + shift, first)
            ids = tensors["ids"] + shift if shift else tensors["ids"]
            names, payload = _texts(tensors, "names"), _texts(tensors, "payload")
            block = Block(NewCodes(tensors["codes"], ids, names, payload))
            if "lists.words" in tensors:
                block.lists = _lists(tensors, reaches)
            self.take(block, next_id + shift, first)

    def _settle(self, state: FileState) -> None:
        """Note that a file holds all of this; codes added next begin a new block."""
        self.state, self._stored, self._open, self._removed = state, list(self.blocks), False, []

    def _drop(self, numbers: NDArray[np.int64], first: int) -> None:
        """Remove those of the numbers that the blocks from `first` on hold."""
        for block, rows, _ in self._located(numbers, first):
            block.remove(rows)

    def _masked(self, mask: NDArray[np.bool_]) -> list[Part]:
        if mask.shape != (len(self),):
            raise ValueError(f"allow must be ids or a mask of shape ({len(self)},), one per code. Got {mask.shape}.")
        parts, start = [], 0
        for block in self.blocks:
            own = mask[start : start + block.n_live]
            start += block.n_live
            rows = np.flatnonzero(own) if block.n_live == len(block) else block.live_rows()[own]
            if len(rows):
                parts.append(block.part._replace(rows=rows))
        return parts

    def _located(self, numbers: NDArray[np.int64], first: int = 0) -> Located:
        """Return for each block that holds any of the numbers where they are."""
        located: Located = []
        for block in self.blocks[first:]:
            if block.n_live and len(numbers):
                rows = block.rows_of(numbers)
                places = np.flatnonzero(rows >= 0)
                if len(places):
                    located.append((block, rows[places], places))
        return located


def _whole(ids: Any) -> NDArray[np.int64]:
    """Whole numbers that may repeat and need not be known."""
    array = np.asarray(ids)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"ids must be a list of whole numbers or texts. Got dtype {array.dtype}, shape {array.shape}.")
    return np.where(array > np.iinfo(np.int64).max - 1, -1, array).astype(np.int64)


def _tensors(content: NewCodes) -> Tensors:
    """Arrays of one block, those of wide numbers first, so that each begins where it may be read in place."""
    columns = {"names": content.names, "payload": content.payload}
    texts = {what: Texts.of(column) for what, column in columns.items() if column is not None}
    return (
        {"ids": content.ids}
        | {f"{what}.offsets": column.offsets for what, column in texts.items()}
        | {"codes": content.codes}
        | {f"{what}.letters": column.letters for what, column in texts.items()}
    )


def _texts(tensors: Tensors, what: str) -> Texts | None:
    if f"{what}.offsets" not in tensors:
        return None
    return Texts(tensors[f"{what}.offsets"], tensors.get(f"{what}.letters", np.empty(0, np.uint8)))


def _lists(tensors: Tensors, reaches: str | None) -> Lists:
    from projbank.search.lists import WORDS, Lists, Reach

    words, starts, centres = tensors["lists.words"], np.array(tensors["lists.starts"]), tensors["lists.centres"]
    sizes, n_words = np.diff(starts), min(WORDS, -(-tensors["codes"].shape[1] // 8))
    fits = starts.shape == (len(centres) + 1,) and starts[0] == 0 and starts[-1] == len(tensors["ids"])
    fits = fits and np.all(sizes >= 0) and words.shape == (np.sum((sizes + 7) // 8), 8 * n_words)
    if not fits or centres.shape[1:] != tensors["codes"].shape[1:]:
        raise ValueError("damaged: its lists do not fit its codes.")
    parsed = {int(k): Reach(int(near), tuple(slacks)) for k, (near, slacks) in json.loads(reaches or "{}").items()}
    return Lists(centres, starts, words.view(np.uint64).reshape(len(words), -1, 8), parsed)
