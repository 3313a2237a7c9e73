"""Codes in LanceDB: an embedded table of ids and bytes, searched flat or through IVF."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.extras import import_extra
from projbank.search.scan import Nearest, NewCodes
from projbank.stores.base import FLAT, CodeStore, IndexKind, Row, Wanted, collect

BITS_KEY = b"projbank.n_bits"


class LanceStore(CodeStore):
    """Codes in a table of LanceDB.

    Parameters
    ----------
    folder : path
        Folder of the database, made if need be.
    table : str
        Name of the table. It has the columns `id` (int64), `code` (a list of bytes), `name` and `payload` (texts), and
        the length of the codes in the metadata of its schema. Each batch of an add is one version of the table: whole
        or not there.
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

        fields = [
            pa.field("id", pa.int64()),
            pa.field("code", pa.list_(pa.uint8(), code_bytes(n_bits))),
            pa.field("name", pa.string()),
            pa.field("payload", pa.string()),
        ]
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

    def _stored_codes(self) -> NDArray[np.uint8]:
        found = self._table.search().select(["id", "code"]).limit(self._count()).to_arrow().sort_by("id")
        values = found["code"].combine_chunks().flatten()
        return np.asarray(values.to_numpy().reshape(-1, code_bytes(self._n_bits)))

    def _add_batch(self, batch: NewCodes) -> None:
        self._table.add(self._columns(batch))

    def _replace(self, codes: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        kind, columns = self._kind(), self._columns(NewCodes(codes, numbers))
        if self._has_labels():
            import pyarrow as pa

            for name, texts in zip(("name", "payload"), zip(*self._labels(numbers), strict=True), strict=True):
                place = columns.schema.get_field_index(name)
                columns = columns.set_column(place, name, pa.array(list(texts), pa.string()))
        columns = columns.replace_schema_metadata(self._table.schema.metadata)
        self._table.add(columns, mode="overwrite")
        if kind != FLAT:
            self._build(kind)

    def _columns(self, batch: NewCodes) -> Any:
        import pyarrow as pa

        width = batch.codes.shape[1]
        columns: dict[str, Any] = {
            "id": pa.array(batch.ids),
            "code": pa.FixedSizeListArray.from_arrays(pa.array(batch.codes.reshape(-1)), width),
        }
        if self._has_labels():
            for name, texts in (("name", batch.names), ("payload", batch.payload)):
                columns[name] = pa.array([None] * len(batch.ids) if texts is None else list(texts), pa.string())
        elif batch.names is not None or batch.payload is not None:
            raise ValueError(f"{self._where()}: was made without columns for texts; drop and fill it anew.")
        return pa.table(columns)

    def _has_labels(self) -> bool:
        """Tables of version 0.1.0 have no columns for texts."""
        return "name" in self._table.schema.names

    def _is_named(self) -> bool:
        return self._has_labels() and bool(self._table.count_rows("name IS NOT NULL"))

    def _select(self, column: str, values: list[Any]) -> Iterable[Row]:
        if not self._has_labels():
            return []
        listed = ", ".join(_literal(value) for value in values)
        query = self._table.search().where(f"{column} IN ({listed})").select(["id", "name", "payload"])
        found = query.limit(len(values)).to_arrow()
        return zip(*(found[name].to_pylist() for name in ("id", "name", "payload")), strict=True)

    def _build(self, kind: IndexKind) -> None:
        from lancedb.index import IvfFlat

        self._table.create_index("code", config=IvfFlat(distance_type="hamming", num_partitions=kind.n_lists))

    def _fetch(self, points: NDArray[np.uint8], wanted: Wanted) -> Nearest:
        def answer(point: NDArray[np.uint8]) -> list[tuple[float, int]]:
            query = self._table.search(point, vector_column_name="code").distance_type("hamming")
            query = query.bypass_vector_index() if wanted.kind == FLAT else query.nprobes(wanted.effort)
            if wanted.allow is not None:
                query = query.where(f"id IN ({', '.join(map(str, wanted.allow.tolist()))})", prefilter=True)
            found = query.limit(wanted.k).select(["id", "_distance"]).to_arrow()
            return list(zip(found["_distance"].to_pylist(), found["id"].to_pylist(), strict=True))

        return collect(map(answer, points), len(points), wanted.k)


def _literal(value: Any) -> str:
    """A number or a text as SQL writes it."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
