"""Codes in LanceDB: an embedded table of ids and bytes, searched flat or through IVF."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.stores.base import FLAT, NOTHING, CodeStore, IndexKind, import_extra

BITS_KEY = b"projbank.n_bits"


class LanceStore(CodeStore):
    """Codes in a table of LanceDB.

    Parameters
    ----------
    folder : path
        Folder of the database, made if need be.
    table : str
        Name of the table. It has the columns `id` (int64) and `code` (a list of bytes), and the length of the codes in
        the metadata of its schema. Each batch of an add is one version of the table: whole or not there.
    """

    index_kinds = ("ivf",)

    def __init__(self, folder: str | os.PathLike[str], table: str = "codes") -> None:
        lancedb = import_extra("lancedb", "lancedb")
        self._folder, self._name = Path(folder), table
        if self._folder.exists() and not self._folder.is_dir():
            raise NotADirectoryError(f"{self._folder}: is a file, not a folder of a database.")
        self._database = lancedb.connect(self._folder)
        self._table: Any = None
        self._n_bits = 0
        if self._exists():
            self._open()

    def _stored_bits(self) -> int | None:
        return None if self._table is None else self._n_bits

    def _create(self, n_bits: int) -> None:
        import pyarrow as pa

        fields = [pa.field("id", pa.int64()), pa.field("code", pa.list_(pa.uint8(), code_bytes(n_bits)))]
        schema = pa.schema(fields, metadata={BITS_KEY: str(n_bits)})
        self._table = self._database.create_table(self._name, schema=schema)
        self._n_bits = n_bits

    def _count(self) -> int:
        return int(self._table.count_rows())

    def drop(self) -> None:
        """Delete the table."""
        if self._table is not None:
            self._database.drop_table(self._name)
        self._table = None

    def close(self) -> None:
        """Do nothing: every batch was written when it was added."""

    def _exists(self) -> bool:
        page, names = None, []
        while page is None or page.page_token:
            page = self._database.list_tables(page_token=page.page_token if page else None)
            names += page.tables
        return self._name in names

    def _open(self) -> None:
        table = self._database.open_table(self._name)
        text = (table.schema.metadata or {}).get(BITS_KEY, b"").decode()
        if not text.isdigit():
            raise ValueError(f"{self._where()}: exists, but is not a table of codes of projbank.")
        self._table, self._n_bits = table, int(text)

    def _where(self) -> str:
        return f"{self._folder}, table {self._name!r}"

    def _kind(self) -> IndexKind:
        if any(index.columns == ["code"] for index in self._table.list_indices()):
            return IndexKind("ivf", max(1, math.isqrt(self._count())))  # LanceDB does not tell the number of lists
        return FLAT

    def _stored_ids(self) -> NDArray[np.int64]:
        return self._table.search().select(["id"]).limit(self._count() or 1).to_arrow()["id"].to_numpy()

    def _add_batch(self, codes: NDArray[np.uint8], ids: NDArray[np.int64]) -> None:
        import pyarrow as pa

        lists = pa.FixedSizeListArray.from_arrays(pa.array(codes.reshape(-1)), codes.shape[1])
        self._table.add(pa.table({"id": pa.array(ids), "code": lists}))

    def _build(self, kind: IndexKind) -> None:
        from lancedb.index import IvfFlat

        self._table.create_index("code", config=IvfFlat(distance_type="hamming", num_partitions=kind.n_lists))

    def _fetch(
        self, points: NDArray[np.uint8], k: int, kind: IndexKind, effort: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        distances = np.full((len(points), k), NOTHING, dtype=np.int32)
        ids = np.full((len(points), k), -1, dtype=np.int64)
        for row, point in enumerate(points):
            query = self._table.search(point, vector_column_name="code").distance_type("hamming")
            query = query.bypass_vector_index() if kind == FLAT else query.nprobes(effort)
            found = query.limit(k).select(["id", "_distance"]).to_arrow()
            ids[row, : len(found)] = found["id"].to_numpy()
            distances[row, : len(found)] = found["_distance"].to_numpy()
        return distances, ids
