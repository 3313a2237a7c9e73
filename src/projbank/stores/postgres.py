"""Codes in PostgreSQL with pgvector: a table of `id bigint`, `code bit(n)` and texts, ordered by `<~>`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes, unpack
from projbank.extras import import_extra
from projbank.params import reject
from projbank.search.scan import Nearest, NewCodes
from projbank.stores.base import FLAT, IndexKind, Row, Wanted, collect
from projbank.stores.sql import SqlStore

if TYPE_CHECKING:
    import psycopg

MAX_INDEXED_BITS = 64_000
MAX_CANDIDATES = 1000
"""pgvector's own limits: the longest code an index takes, and the largest hnsw.ef_search."""
MAX_NAME_BYTES = 63
"""PostgreSQL cuts longer names without an error: two tables whose names agree so far would be one."""
COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"
REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), axis=1)[:, 0]
"""A byte with its bits in the opposite order: the first bit of PostgreSQL's bit(n) is the highest one of a byte."""


class PostgresStore(SqlStore):
    """Codes in a table of PostgreSQL with the extension pgvector, 0.7 or newer.

    Parameters
    ----------
    address : str
        Anything libpq takes: ``"postgresql://user@host/database"`` or ``"host=... dbname=..."``.
    table : str
        Name of the table, taken literally: it is always quoted. At most 63 bytes, beyond which PostgreSQL would cut it.
    schema : str, optional
        Schema of the table; by default the first of the search path.

    Notes
    -----
    Bit p of a code is bit p, counted from the left, of ``code``. Each batch of an add is one COPY in one transaction. A
    connection that was lost is opened anew by the next call.
    """

    index_kinds = ("ivf", "hnsw")
    _among = "= ANY(%s)"

    def __init__(self, address: str, table: str = "codes", *, schema: str | None = None) -> None:
        self._psycopg = import_extra("psycopg", "postgres")
        self._address = address
        names = [schema, table] if schema else [table]
        for name in names:
            if not 0 < len(name.encode()) <= MAX_NAME_BYTES or "\0" in name:
                reject(self, "table" if name == table else "schema", f"of 1 to {MAX_NAME_BYTES} bytes, none zero", name)
        self._name, self._quoted = table, self._psycopg.sql.Identifier(*names).as_string(None)
        self._table = self._quoted.replace("%", "%%")  # a % would be taken for the place of a value
        self._connection()

    def _create(self, n_bits: int) -> None:
        """Make the table, and the extension pgvector if the database lacks it."""
        with self._transaction() as cursor:
            cursor.execute("SET LOCAL client_min_messages = warning")
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
            columns = f"id bigint PRIMARY KEY, code bit({n_bits}) NOT NULL, name text UNIQUE, payload jsonb"
            _run(cursor, f"CREATE TABLE {self._table} ({columns})")
            # long codes are stored out of line as they are: compressing random bits gains nothing
            _run(cursor, f"ALTER TABLE {self._table} ALTER COLUMN code SET STORAGE EXTERNAL")

    def drop(self) -> None:
        """Delete the table."""
        if self._stored_bits() is not None:
            self._ask(f"DROP TABLE {self._table}")

    def _connection(self) -> psycopg.Connection[Any]:
        """Return the open connection, a new one if it was lost."""
        if self._lazy is None or self._lazy.closed:
            try:
                self._lazy = self._psycopg.connect(self._address, autocommit=True)
            except self._psycopg.ProgrammingError as error:
                raise ValueError(f"address is not one of PostgreSQL: {_line(error)}") from error
            except self._psycopg.OperationalError as error:
                raise ConnectionError(f"PostgreSQL can't be reached: {_line(error)}") from error
        return self._lazy

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[psycopg.Cursor[Any]]:
        """Yield a cursor whose work is committed as a whole or not at all; the server's errors become plain ones."""
        connection = self._connection()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                yield cursor
        except self._psycopg.errors.UniqueViolation as error:
            raise ValueError(f"ids must be new: {_line(error)}") from error
        except self._psycopg.Error as error:
            if connection.closed:
                raise ConnectionError(f"PostgreSQL was lost: {_line(error)}") from error
            raise OSError(f"{self._where()}: {_line(error)}") from error

    def _ask(self, text: str, *values: Any) -> list[Any]:
        with self._transaction() as cursor:
            _run(cursor, text, *values)
            return cursor.fetchall() if cursor.description else []

    def _listed(self, values: list[Any]) -> list[Any]:
        return values

    def _where(self) -> str:
        return f"PostgreSQL, table {self._name!r}"

    def _stored_bits(self) -> int | None:
        text = """
            SELECT a.atttypid = 'bit'::regtype, a.atttypmod
            FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'code' AND NOT a.attisdropped
            WHERE c.oid = to_regclass(%s)"""
        rows = self._ask(text, self._quoted)
        if not rows:
            return None
        is_bit, n_bits = rows[0]
        if not is_bit:
            raise ValueError(f"The table {self._name!r} exists, but has no column code of type bit(n).")
        return int(n_bits)

    def _kind(self) -> IndexKind:
        text = """
            SELECT am.amname, c.reloptions
            FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
            WHERE i.indrelid = to_regclass(%s) AND am.amname IN ('hnsw', 'ivfflat')"""
        rows = self._ask(text, self._quoted)
        if not rows:
            return FLAT
        method, options = rows[0]
        settings = dict(option.split("=", 1) for option in options or [])
        return IndexKind("hnsw") if method == "hnsw" else IndexKind("ivf", int(settings.get("lists", 100)))

    def _stored_codes(self) -> NDArray[np.uint8]:
        statement = f"COPY (SELECT id, code FROM {self._quoted} ORDER BY id) TO STDOUT (FORMAT BINARY)"
        with self._transaction() as cursor, cursor.copy(statement.encode()) as copy:
            content = b"".join(bytes(part) for part in copy)
        rows = np.frombuffer(content[len(COPY_SIGNATURE) : -len(COPY_END)], _row_layout(code_bytes(self.n_bits)))
        return np.asarray(REVERSED[rows["code"]])

    def _replace(self, codes: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        n_bits = self.n_bits
        with self._transaction() as cursor:
            _run(cursor, f"CREATE TEMP TABLE recoded (id bigint, code bit({n_bits})) ON COMMIT DROP")
            _copy(cursor, "recoded", _binary_rows(codes, numbers, n_bits))
            _run(cursor, f"UPDATE {self._table} AS t SET code = r.code FROM recoded AS r WHERE t.id = r.id")

    def _add_batch(self, batch: NewCodes) -> None:
        n_bits = self.n_bits
        if batch.names is None and batch.payload is None:
            rows = _binary_rows(batch.codes, batch.ids, n_bits)
            with self._transaction() as cursor:
                _copy(cursor, self._quoted, rows)
            return
        with self._transaction() as cursor:  # a table of version 0.1.0 has no columns for texts
            cursor.execute("SET LOCAL client_min_messages = warning")
            add = "ADD COLUMN IF NOT EXISTS name text UNIQUE, ADD COLUMN IF NOT EXISTS payload jsonb"
            _run(cursor, f"ALTER TABLE {self._table} {add}")
        nothing = [None] * len(batch.ids)
        columns = (batch.ids.tolist(), _texts(batch.codes, n_bits), batch.names or nothing, batch.payload or nothing)
        statement = f"COPY {self._quoted} (id, code, name, payload) FROM STDIN"
        with self._transaction() as cursor, cursor.copy(statement.encode()) as copy:
            for row in zip(*columns, strict=True):
                copy.write_row(row)

    def _has_labels(self) -> bool:
        text = """
            SELECT count(*) FROM pg_attribute
            WHERE attrelid = to_regclass(%s) AND attname IN ('name', 'payload') AND NOT attisdropped"""
        return bool(self._ask(text, self._quoted)[0][0] == 2)

    def _is_named(self) -> bool:
        return self._has_labels() and super()._is_named()

    def _select(self, column: str, values: list[Any]) -> Iterable[Row]:
        return super()._select(column, values) if self._has_labels() else []

    def _build(self, kind: IndexKind) -> None:
        if self.n_bits > MAX_INDEXED_BITS:
            raise ValueError(f"pgvector indexes codes of at most {MAX_INDEXED_BITS} bits. Got {self.n_bits} bits.")
        form = f"WITH (lists = {kind.n_lists})" if kind.name == "ivf" else ""
        method = "ivfflat" if kind.name == "ivf" else kind.name
        self._ask(f"CREATE INDEX ON {self._table} USING {method} (code bit_hamming_ops) {form}")

    def _fetch(self, points: NDArray[np.uint8], wanted: Wanted) -> Nearest:
        n_bits = self.n_bits
        order = f"code <~> %s::bit({n_bits})"  # an index serves exactly this order, without the id
        where = "" if wanted.allow is None else f" WHERE id {self._among}"
        text = (
            f"SELECT {order}, id FROM {self._table}{where} ORDER BY 1{', id' if wanted.kind == FLAT else ''} LIMIT %s"
        )
        allow = [] if wanted.allow is None else [wanted.allow.tolist()]
        with self._transaction() as cursor:
            for name, value in _settings(wanted.kind, wanted.effort).items():
                cursor.execute("SELECT set_config(%s, %s, true)", [name, value])
            answers = (_run(cursor, text, point, *allow, wanted.k).fetchall() for point in _texts(points, n_bits))
            return collect(answers, len(points), wanted.k)


def _run(cursor: psycopg.Cursor[Any], text: str, *values: Any) -> psycopg.Cursor[Any]:
    """Run one statement with values in the places of %s; a table in it is quoted already."""
    return cursor.execute(text.encode(), values)


def _copy(cursor: psycopg.Cursor[Any], table: str, rows: bytes) -> None:
    """Fill a table with rows of ids and codes in binary form."""
    with cursor.copy(f"COPY {table} (id, code) FROM STDIN (FORMAT BINARY)".encode()) as copy:
        copy.write(COPY_SIGNATURE)
        copy.write(rows)
        copy.write(COPY_END)


def _settings(kind: IndexKind, effort: int) -> dict[str, str]:
    """Settings of one search; a flat one, ordered by the id too, must not use an index that someone else has made."""
    if kind == FLAT:
        return {"enable_indexscan": "off"}
    if kind.name == "ivf":
        return {"ivfflat.probes": str(min(effort, kind.n_lists))}
    return {"hnsw.ef_search": str(min(effort, MAX_CANDIDATES))}


def _texts(codes: NDArray[np.uint8], n_bits: int) -> Iterator[str]:
    """Each code as a text of zeros and ones."""
    for bits in unpack(codes, n_bits):
        yield (bits + ord("0")).astype(np.uint8).tobytes().decode()


def _binary_rows(codes: NDArray[np.uint8], ids: NDArray[np.int64], n_bits: int) -> bytes:
    """Rows in the binary format of COPY: for each the number of fields, then each field after its length in bytes."""
    width = codes.shape[1]
    rows = np.empty(len(codes), _row_layout(width))
    rows["fields"], rows["id_bytes"], rows["id"] = 2, 8, ids
    rows["code_bytes"], rows["n_bits"], rows["code"] = 4 + width, n_bits, REVERSED[codes]
    return rows.tobytes()


def _row_layout(width: int) -> np.dtype[Any]:
    """Id and code of `width` bytes in the binary format of COPY."""
    layout = [("fields", ">i2"), ("id_bytes", ">i4"), ("id", ">i8"), ("code_bytes", ">i4"), ("n_bits", ">i4")]
    return np.dtype([*layout, ("code", np.uint8, (width,))])


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
