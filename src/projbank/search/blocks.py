"""Blocks of codes: what was added at a time or lies in one stretch of a file, with ids, texts and payload beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.search.scan import Part

if TYPE_CHECKING:
    from projbank.search.lists import Lists


class Texts:
    """Texts that lie one after another as UTF-8; text i is the bytes from offsets[i] to offsets[i + 1]."""

    def __init__(self, offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> None:
        self.offsets, self.letters = offsets, letters

    @classmethod
    def of(cls, texts: list[str] | Texts) -> Texts:
        """Lay texts out; those that already are stay where they are."""
        if isinstance(texts, Texts):
            return texts
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(one) for one in encoded], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(encoded), np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        start, stop = int(self.offsets[row]), int(self.offsets[row + 1])
        return self.letters[start:stop].tobytes().decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))


Column = list[str] | Texts
"""One text per code."""


class NewCodes(NamedTuple):
    """Checked codes, one id for each, and perhaps a text and a payload for each."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64]
    names: Column | None = None
    payload: Column | None = None


class Block:
    """Codes with what belongs to them; rows that were removed stay in place and do not count.

    Parameters
    ----------
    content : NewCodes
        Used where it is, never written to.
    """

    def __init__(self, content: NewCodes) -> None:
        self._codes, self._ids, self.names, self.payload = content
        self._live = self._ids
        self._count = len(self._ids)
        self._owned = False
        self._order: NDArray[np.int64] | None = None
        self._consecutive: bool | None = None
        self.n_live = self._count
        self.lists: Lists | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def part(self) -> Part:
        """All codes as the scans take them, with ids of -1 for those that were removed."""
        return Part(self._codes[: self._count], self._live[: self._count])

    def live_rows(self) -> NDArray[np.int64]:
        """Rows that were not removed."""
        return np.flatnonzero(self._live[: self._count] >= 0)

    def content(self) -> NewCodes:
        """What was not removed; the arrays themselves where nothing was."""
        if self.n_live == self._count:
            return NewCodes(self._codes[: self._count], self._ids[: self._count], self.names, self.payload)
        rows = self.live_rows()
        names, payload = (
            None if texts is None else [texts[row] for row in rows.tolist()] for texts in (self.names, self.payload)
        )
        return NewCodes(self._codes[rows], self._ids[rows], names, payload)

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each id, -1 where there is none."""
        live = self._live[: self._count]
        if self._count == 0:
            return np.full(len(ids), -1)
        if self._consecutive is None:
            self._consecutive = bool(live[0] >= 0 and np.all(live[1:] == live[:-1] + 1))
        if self._consecutive:
            rows = ids - live[0]
            return np.where((rows >= 0) & (rows < self._count), rows, -1)
        if self._order is None:
            self._order = np.argsort(live, kind="stable")
        places = np.minimum(np.searchsorted(live, ids, sorter=self._order), self._count - 1)
        rows = self._order[places]
        return np.where((live[rows] == ids) & (ids >= 0), rows, -1)

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Let the given rows, which count until now, count no more."""
        if self._live is self._ids:
            self._live = self._ids.copy()
        self._live[rows] = -1
        self._order, self._consecutive = None, False
        self.n_live -= len(rows)

    def append(self, new: NewCodes) -> None:
        """Add codes to a block in memory; its buffers grow by half, so that many small adds stay cheap."""
        total = self._count + len(new.ids)
        if not self._owned or total > len(self._codes):
            self._grow(max(total, 3 * self._count // 2))
        self._codes[self._count : total] = new.codes
        self._ids[self._count : total] = new.ids
        self._live[self._count : total] = new.ids
        self.names = _joined(self.names, self._count, new.names, len(new.ids), "")
        self.payload = _joined(self.payload, self._count, new.payload, len(new.ids), "null")
        self._count, self._order, self._consecutive = total, None, None
        self.n_live += len(new.ids)

    def _grow(self, capacity: int) -> None:
        removed = self._live is not self._ids
        codes = np.empty((capacity, self._codes.shape[1]), np.uint8)
        ids = np.empty(capacity, np.int64)
        codes[: self._count], ids[: self._count] = self._codes[: self._count], self._ids[: self._count]
        if removed:
            live = ids.copy()
            live[: self._count] = self._live[: self._count]
        self._codes, self._ids, self._owned = codes, ids, True
        self._live = live if removed else ids


def _joined(old: Column | None, n_old: int, new: Column | None, n_new: int, default: str) -> Column | None:
    """Texts of old and new rows; a list is extended where it is."""
    if old is None and new is None:
        return None
    texts = old if isinstance(old, list) else ([default] * n_old if old is None else list(old))
    texts.extend([default] * n_new if new is None else new)
    return texts
