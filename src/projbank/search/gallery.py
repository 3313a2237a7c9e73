"""Gallery: all blocks of an index, and how the user's ids, numbers or texts, lead to their codes and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, clear_padding, code_bytes
from projbank.search.blocks import Block, Column, NewCodes
from projbank.search.ids import are_texts, check_ids, check_texts, encode_payload, new_ids, refuse
from projbank.search.scan import Part


class _Located(NamedTuple):
    """Rows of one block, and the places among the numbers asked for that they answer."""

    block: Block
    rows: NDArray[np.int64]
    places: NDArray[np.int64]


class Gallery:
    """Codes in blocks. Inside, a code is known by a whole number: the user's id, or a running number for texts.

    Parameters
    ----------
    n_bits : length of a code
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self.blocks: list[Block] = []
        self.next_id = 0
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
    def removed(self) -> NDArray[np.int64]:
        """Numbers removed since the gallery was settled."""
        return np.concatenate([np.empty(0, np.int64), *self._removed])

    def append(self, block: Block, next_id: int | None = None, *, distinct_from: int = 0) -> None:
        """Take a block as it is; the first `distinct_from` blocks must hold none of its ids."""
        others = Gallery(self.n_bits)
        others.blocks = self.blocks[:distinct_from]
        if block.names is not None and distinct_from:
            refuse(others.find(list(block.names)) >= 0, block.names, "new. Got {}, which the index already holds")
        elif distinct_from and len(block):
            refuse(others.find(block.part.ids) >= 0, block.part.ids, "new. Got {}, which the index already holds")
        self.blocks.append(block)
        self.next_id = max(self.next_id, int(block.part.ids.max(initial=-1)) + 1 if next_id is None else next_id)
        self._open, self._numbers = False, None

    def settle(self) -> None:
        """Count changes from here on: codes added next begin a new block."""
        self._open, self._removed = False, []

    def replace(self, block: Block) -> None:
        """Let one block stand for all of them; it holds what they hold."""
        self.blocks, self._open, self._numbers = [block], False, None

    @property
    def is_one_block(self) -> bool:
        """Whether all codes stand in one block from which nothing was removed."""
        return len(self.blocks) == 1 and self.blocks[0].n_live == len(self.blocks[0])

    def live_blocks(self) -> list[Block]:
        """Blocks that hold any codes."""
        return [block for block in self.blocks if block.n_live]

    def drop(self, numbers: NDArray[np.int64], first: int) -> None:
        """Remove those of the numbers that the blocks from `first` on hold."""
        for block, rows, _ in self._located(numbers, first):
            block.remove(rows)

    def check(self, codes: ArrayLike, ids: Any, payload: Iterable[Any] | None) -> NewCodes:
        """Return what is to be added, or raise an error that says why it can't be."""
        array = clear_padding(check_codes(codes, self.n_bits), self.n_bits)
        texts = None if payload is None else encode_payload(payload, len(array))
        named = self.named if len(self) else None
        return NewCodes(array, *new_ids(ids, len(array), self.next_id, named, self.find, "index"), texts)

    def add(self, new: NewCodes) -> None:
        """Add checked codes."""
        if self._open:
            self.blocks[-1].append(new)
        else:
            self.blocks.append(Block(NewCodes(new.codes[:0], new.ids[:0])))
            self.blocks[-1].append(new)
            self._open = True
        if self._numbers is not None and new.names is not None:
            self._numbers.update(zip(new.names, new.ids.tolist(), strict=True))
        self.next_id = max(self.next_id, int(new.ids.max(initial=-1)) + 1)

    def remove(self, ids: Any) -> NDArray[np.int64]:
        """Remove the codes of the given ids, all or none; return their numbers."""
        numbers = self.numbers(ids, distinct=True, tail="; nothing was removed")
        self.drop(numbers, 0)
        self._removed.append(numbers)
        if self._numbers is not None:
            for name in check_texts(ids):
                del self._numbers[name]
        return numbers

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
        known_here = np.zeros(len(numbers), dtype=bool)
        for _, _, places in self._located(numbers):
            known_here[places] = True
        return np.where(known_here, numbers, -1)

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
        chosen: dict[int, list[NDArray[np.int64]]] = {}
        found = self.find(wanted)
        for block, rows, _ in self._located(found[found >= 0]):
            chosen.setdefault(id(block), []).append(rows)
        return [
            block.part._replace(rows=np.unique(np.concatenate(chosen[id(block)])))
            for block in self.blocks
            if id(block) in chosen
        ]

    def all_parts(self) -> list[Part]:
        """All blocks, those of which nothing is left, too."""
        return [block.part for block in self.blocks]

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

    def _located(self, numbers: NDArray[np.int64], first: int = 0) -> list[_Located]:
        """Return for each block that holds any of the numbers where they are."""
        located: list[_Located] = []
        for block in self.blocks[first:]:
            if not block.n_live or not len(numbers):
                continue
            rows = block.rows_of(numbers)
            places = np.flatnonzero(rows >= 0)
            if len(places):
                located.append(_Located(block, rows[places], places))
        return located


def _whole(ids: Any) -> NDArray[np.int64]:
    """Whole numbers that may repeat and need not be known."""
    array = np.asarray(ids)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"ids must be a list of whole numbers or texts. Got dtype {array.dtype}, shape {array.shape}.")
    return np.where(array > np.iinfo(np.int64).max - 1, -1, array).astype(np.int64)
