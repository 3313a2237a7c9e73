"""Codes in FAISS: IndexBinaryFlat, IndexBinaryIVF or IndexBinaryHNSW, in memory, kept in a folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.files import atomic_path, input_file
from projbank.notes import check_seal, seal
from projbank.stores.base import FLAT, NOTHING, CodeStore, IndexKind

VERSION = SEALED_VERSION = 2
"""From version 2 on the index has a checksum."""
_IS_BEGUN = re.compile(r"\.(index\.faiss|store\.json)\.[0-9a-f]{8}\.part")
LINKS = 32
"""Links per code of the HNSW graph."""


class FaissStore(CodeStore):
    """Codes in a FAISS index, which is read when the store is opened and written by `close`.

    Parameters
    ----------
    folder : path
        Holds `store.json` (the length of the codes) and `index.faiss`, which FAISS itself can read. FAISS knows only
        whole bytes: other lengths are padded with bits that are 0.
    """

    index_kinds = ("ivf", "hnsw")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._index: Any = None
        self._n_bits = 0
        self._changed = False
        if self._folder.exists():
            self._open()

    def _where(self) -> str:
        return str(self._folder)

    def _stored_bits(self) -> int | None:
        return None if self._index is None else self._n_bits

    def _create(self, n_bits: int) -> None:
        import faiss

        self._index = faiss.IndexBinaryIDMap(_owned(faiss.IndexBinaryFlat(8 * code_bytes(n_bits))))
        self._index.own_fields = True
        self._n_bits, self._changed = n_bits, True
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write_about()
        self._write()

    def _count(self) -> int:
        return int(self._index.ntotal)

    def drop(self) -> None:
        """Delete the store's files, and its folder if nothing else is in it."""
        if self._index is not None:
            for name in ("store.json", "index.faiss"):
                (self._folder / name).unlink(missing_ok=True)
            if not any(self._folder.iterdir()):
                self._folder.rmdir()
        self._index, self._changed = None, False

    def close(self) -> None:
        """Write the index if it has changed."""
        if self._index is not None and self._changed:
            self._write()

    def _open(self) -> None:
        import faiss

        if not (self._folder / "store.json").is_file():
            if self._folder.is_dir() and all(_IS_BEGUN.fullmatch(path.name) for path in self._folder.iterdir()):
                return  # empty, or killed while it was created
            raise ValueError(f"{self._folder}: exists, but is not a store of projbank (it has no store.json).")
        try:
            about = json.loads(input_file(self._folder / "store.json").read_text())
            self._n_bits = int(about["n_bits"])
            if not (self._folder / "index.faiss").exists():
                return  # killed while it was created
            if int(about["version"]) >= SEALED_VERSION:  # FAISS follows damaged sizes wherever they lead
                check_seal(input_file(self._folder / "index.faiss"))
            self._index = faiss.read_index_binary(str(self._folder / "index.faiss"))
        except (ValueError, KeyError, TypeError, RuntimeError, OverflowError) as error:
            raise ValueError(f"{self._folder}: damaged store ({' '.join(str(error).split())[:200]}).") from error
        if self._index.d != 8 * code_bytes(self._n_bits):
            raise ValueError(f"{self._folder}: damaged store ({self._n_bits} bits do not fit {self._index.d}).")

    def _write(self) -> None:
        import faiss

        with atomic_path(self._folder / "index.faiss") as temporary:
            faiss.write_index_binary(self._index, str(temporary))
            seal(temporary)
        self._write_about()
        self._changed = False

    def _write_about(self) -> None:
        with atomic_path(self._folder / "store.json") as temporary:
            temporary.write_text(json.dumps({"format": "projbank-faiss", "version": VERSION, "n_bits": self._n_bits}))

    def _kind(self) -> IndexKind:
        import faiss

        if isinstance(self._index, faiss.IndexBinaryIVF):
            return IndexKind("ivf", self._index.nlist)
        return IndexKind("hnsw") if isinstance(self._inner(), faiss.IndexBinaryHNSW) else FLAT

    def _inner(self) -> Any:
        """Index inside the map of ids."""
        import faiss

        return faiss.downcast_IndexBinary(self._index.index)

    def _stored_ids(self) -> NDArray[np.int64]:
        import faiss

        if self._kind().name != "ivf":
            return faiss.vector_to_array(self._index.id_map)
        lists = self._index.invlists
        parts = [faiss.rev_swig_ptr(lists.get_ids(i), lists.list_size(i)).copy() for i in range(lists.nlist)]
        return np.concatenate(parts).astype(np.int64)

    def _add_batch(self, codes: NDArray[np.uint8], ids: NDArray[np.int64]) -> None:
        self._index.add_with_ids(codes, ids)
        self._changed = True

    def _build(self, kind: IndexKind) -> None:
        import faiss

        index: Any
        flat, ids = self._inner(), self._stored_ids()
        codes = faiss.vector_to_array(flat.xb).reshape(-1, flat.code_size)
        if kind.name == "ivf":
            index = faiss.IndexBinaryIVF(_owned(faiss.IndexBinaryFlat(flat.d)), flat.d, kind.n_lists)
            index.cp.min_points_per_centroid = 1  # small stores are allowed: no warning on stderr
            index.train(codes)
        else:
            index = faiss.IndexBinaryIDMap(_owned(faiss.IndexBinaryHNSW(flat.d, LINKS)))
        index.own_fields = True
        index.add_with_ids(codes, ids)
        self._index, self._changed = index, True

    def _fetch(
        self, points: NDArray[np.uint8], k: int, kind: IndexKind, effort: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        if kind.name == "ivf":
            self._index.nprobe = effort
        elif kind.name == "hnsw":
            self._inner().hnsw.efSearch = effort
        distances, ids = self._index.search(points, k)
        return np.where(ids < 0, NOTHING, distances).astype(np.int32), ids


def _owned(index: Any) -> Any:
    """Hand the index over to the one that wraps it, which frees it."""
    index.this.disown()
    return index
