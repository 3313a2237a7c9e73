"""Codes of any origin: a `.npy` file, an index of projbank or of FAISS."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.bits import check_codes
from projbank.kinds import kind_of
from projbank.rows.files import first_bytes
from projbank.stores.faiss import codes_in

_FAISS = b"IB"
"""How files of FAISS's binary indexes begin."""


class StoredCodes(NamedTuple):
    """Packed codes, the row of the vectors that each belongs to (None: in order), and what is known about them."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64] | None
    n_bits: int | None
    made_by: str | None


def open_codes(path: str | os.PathLike[str]) -> StoredCodes:
    """Open codes: `.npy` (uint8), an index file of projbank, or a binary index of FAISS (flat, IVF or HNSW)."""
    path = Path(path)
    head = first_bytes(path)
    if head.startswith(b"\x93NUMPY"):
        from projbank.integrity import open_npy

        array, note = open_npy(path)
        note = note or {}
        return StoredCodes(check_codes(array, name=str(path)), None, note.get("n_bits"), note.get("made_by"))
    if head.startswith(_FAISS):
        return _of_faiss(path)
    if kind_of(path) != "index":
        raise ValueError(f"{path}: holds no codes; known are .npy of dtype uint8, indexes of projbank and of FAISS.")
    from projbank.search import HammingIndex

    index = HammingIndex.load(path)
    ids = index.ids
    return StoredCodes(index.codes, None if ids.dtype == object else ids, index.n_bits, index.made_by)


def _of_faiss(path: Path) -> StoredCodes:
    import faiss

    limited = hasattr(faiss, "set_deserialization_vector_byte_limit")
    if limited:  # no list in a file is longer than the file
        before = faiss.get_deserialization_vector_byte_limit()
        faiss.set_deserialization_vector_byte_limit(path.stat().st_size)
    try:
        index: Any = faiss.read_index_binary(str(path))
    except RuntimeError as error:
        raise ValueError(f"{path}: damaged index of FAISS ({' '.join(str(error).split())[:200]}).") from error
    finally:
        if limited:
            faiss.set_deserialization_vector_byte_limit(before)
    codes, ids = (np.concatenate(column) for column in zip(*codes_in(index), strict=True))
    has_ids = type(index).__name__.startswith(("IndexBinaryIDMap", "IndexBinaryIVF"))
    return StoredCodes(codes, ids if has_ids else None, None, None)
