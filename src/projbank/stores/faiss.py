"""Codes in FAISS: IndexBinaryFlat, IndexBinaryIVF or IndexBinaryHNSW, in memory, kept in a folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.files import atomic_path, remove_litter
from projbank.integrity import MAGIC, check_seal, input_file, seal
from projbank.search.scan import NOTHING, Nearest, NewCodes, Part, nearest
from projbank.stores.base import FLAT, CodeStore, IndexKind, Row, Wanted

VERSION = 3
"""2: the index has a checksum. 3: the other files, too. Older stores are read."""
_IS_BEGUN = re.compile(r"\.(index\.faiss|store\.json|labels\.json)\.[0-9a-f]{8}\.part")
LINKS = 32
"""Links per code of the HNSW graph."""


class FaissStore(CodeStore):
    """Codes in a FAISS index, which is read when the store is opened and written by `close`.

    Parameters
    ----------
    folder : path
        Holds `store.json` (the length of the codes), `index.faiss`, which FAISS itself can read, and `labels.json`
        where ids are texts or there is a payload. FAISS knows only whole bytes: other lengths are padded with zeros.
    """

    index_kinds = ("ivf", "hnsw")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._index: Any = None
        self._n_bits = 0
        self._changed = False
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._payload: dict[int, str] = {}
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
            for name in ("store.json", "index.faiss", "labels.json"):
                (self._folder / name).unlink(missing_ok=True)
            if not any(self._folder.iterdir()):
                self._folder.rmdir()
        self._index, self._changed = None, False
        self._names, self._numbers, self._payload = {}, {}, {}

    def close(self) -> None:
        """Write the index if it has changed."""
        if self._index is not None and self._changed:
            self._write()

    def _open(self) -> None:
        import faiss

        for name in ("index.faiss", "store.json", "labels.json"):
            remove_litter(self._folder / name)
        if not (self._folder / "store.json").is_file():
            if self._folder.is_dir() and all(_IS_BEGUN.fullmatch(path.name) for path in self._folder.iterdir()):
                return  # empty, or killed while it was created
            raise ValueError(f"{self._folder}: exists, but is not a store of projbank (it has no store.json).")
        try:
            about = self._read_json("store.json", 0)
            self._n_bits = int(about["n_bits"])
            if not (self._folder / "index.faiss").exists():
                return  # killed while it was created
            version = int(about["version"])
            if version >= 2:  # FAISS follows damaged sizes wherever they lead
                check_seal(input_file(self._folder / "index.faiss"))
            self._index = faiss.read_index_binary(str(self._folder / "index.faiss"))
            self._read_labels(version)
        except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError) as error:
            raise ValueError(f"{self._folder}: damaged store ({' '.join(str(error).split())[:200]}).") from error
        if self._index.d != 8 * code_bytes(self._n_bits):
            raise ValueError(f"{self._folder}: damaged store ({self._n_bits} bits do not fit {self._index.d}).")

    def _read_json(self, name: str, version: int) -> Any:
        """Content of a file of JSON and a seal; before version 3 there may be none."""
        path = input_file(self._folder / name)
        text, sealed, _ = path.read_bytes().partition(MAGIC)
        if sealed or version >= 3:
            check_seal(path)
        return json.loads(text)

    def _write_json(self, name: str, content: Any) -> None:
        with atomic_path(self._folder / name) as temporary:
            temporary.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
            seal(temporary)

    def _read_labels(self, version: int) -> None:
        """Read texts and payload of the codes in the index; a killed process may have left more of them."""
        if not (self._folder / "labels.json").exists():
            return
        labels, stored = self._read_json("labels.json", version), set(self._stored_ids().tolist())
        self._names = {int(number): name for number, name in labels["names"].items() if int(number) in stored}
        self._payload = {int(number): text for number, text in labels["payload"].items() if int(number) in stored}
        self._numbers = {name: number for number, name in self._names.items()}

    def _write(self) -> None:
        import faiss

        if self._names or self._payload:
            self._write_json("labels.json", {"names": self._names, "payload": self._payload})
        with atomic_path(self._folder / "index.faiss") as temporary:
            faiss.write_index_binary(self._index, str(temporary))
            seal(temporary)
        self._write_about()
        self._changed = False

    def _write_about(self) -> None:
        self._write_json("store.json", {"format": "projbank-faiss", "version": VERSION, "n_bits": self._n_bits})

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
        return np.concatenate([ids for _, ids in codes_in(self._index)])

    def _stored_codes(self) -> NDArray[np.uint8]:
        codes, ids = (np.concatenate(column) for column in zip(*codes_in(self._index), strict=True))
        return np.asarray(codes[np.argsort(ids)])

    def _add_batch(self, batch: NewCodes) -> None:
        self._index.add_with_ids(batch.codes, batch.ids)
        numbers = batch.ids.tolist()
        if batch.names is not None:
            self._names.update(zip(numbers, batch.names, strict=True))
            self._numbers.update(zip(batch.names, numbers, strict=True))
        if batch.payload is not None:
            self._payload.update(zip(numbers, batch.payload, strict=True))
        self._changed = True

    def _replace(self, codes: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        import faiss

        kind = self._kind()
        self._index = faiss.IndexBinaryIDMap(_owned(faiss.IndexBinaryFlat(self._index.d)))
        self._index.own_fields = True
        self._index.add_with_ids(codes, numbers)
        if kind != FLAT:
            self._build(kind)
        self._write()

    def _is_named(self) -> bool:
        return bool(self._names)

    def _select(self, column: str, values: list[Any]) -> Iterable[Row]:
        numbers = values if column == "id" else [self._numbers[name] for name in values if name in self._numbers]
        return [(number, self._names.get(number), self._payload.get(number)) for number in numbers]

    def _build(self, kind: IndexKind) -> None:
        import faiss

        index: Any
        ((codes, ids),), d = codes_in(self._index), self._index.d
        if kind.name == "ivf":
            index = faiss.IndexBinaryIVF(_owned(faiss.IndexBinaryFlat(d)), d, kind.n_lists)
            index.cp.min_points_per_centroid = 1  # small stores are allowed: no warning on stderr
            index.train(codes)
        else:
            index = faiss.IndexBinaryIDMap(_owned(faiss.IndexBinaryHNSW(d, LINKS)))
        index.own_fields = True
        index.add_with_ids(codes, ids)
        self._index, self._changed = index, True

    def _fetch(self, points: NDArray[np.uint8], wanted: Wanted) -> Nearest:
        if wanted.allow is not None:
            rows = ((codes, ids, np.flatnonzero(np.isin(ids, wanted.allow))) for codes, ids in codes_in(self._index))
            return nearest([Part(*one) for one in rows if len(one[2])], points, wanted.k, 1)
        if wanted.kind.name == "ivf":
            self._index.nprobe = wanted.effort
        elif wanted.kind.name == "hnsw":
            self._inner().hnsw.efSearch = wanted.effort
        distances, ids = self._index.search(points, wanted.k)
        return np.where(ids < 0, NOTHING, distances).astype(np.int32), ids


def codes_in(index: Any) -> list[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Codes of a binary index where FAISS keeps them, with their ids."""
    import faiss

    kind, size = type(index).__name__, index.code_size
    if kind.startswith("IndexBinaryIDMap"):
        ((codes, _),) = codes_in(faiss.downcast_IndexBinary(index.index))
        return [(codes, faiss.vector_to_array(index.id_map))]
    if kind == "IndexBinaryHNSW":
        return codes_in(faiss.downcast_IndexBinary(index.storage))
    if kind == "IndexBinaryFlat":
        codes = faiss.rev_swig_ptr(index.xb.data(), index.ntotal * size) if index.ntotal else np.empty(0, np.uint8)
        return [(codes.reshape(-1, size), np.arange(index.ntotal))]
    if kind != "IndexBinaryIVF":
        raise ValueError(f"codes of {kind} can't be read; known are flat, IVF and HNSW.")
    lists, found = index.invlists, []
    for i in range(lists.nlist):
        if n := lists.list_size(i):
            codes = faiss.rev_swig_ptr(lists.get_codes(i), n * size).reshape(n, size)
            found.append((codes, faiss.rev_swig_ptr(lists.get_ids(i), n).astype(np.int64)))
    return found or [(np.empty((0, size), np.uint8), np.empty(0, np.int64))]


def _owned(index: Any) -> Any:
    """Hand the index over to the one that wraps it, which frees it."""
    index.this.disown()
    return index
