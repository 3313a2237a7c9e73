"""Codes in PostgreSQL with pgvector: a table of `id bigint`, `code bit(n)` and texts, ordered by `<~>`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, LiteralString

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes, unpack
from projbank.params import reject
from projbank.search.scan import Nearest, NewCodes
from projbank.stores.base import FLAT, VALUES_PER_QUESTION, CodeStore, IndexKind, Row, Wanted, collect, import_extra
from projbank.threads import split_rows

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


class PostgresStore(CodeStore):
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
    orders_ties = True

    def __init__(self, address: str, table: str = "codes", *, schema: str | None = None) -> None:
        self._psycopg = import_extra("psycopg", "postgres")
        self._address = address
        names = [schema, table] if schema else [table]
        for name in names:
            if not 0 < len(name.encode()) <= MAX_NAME_BYTES or "\0" in name:
                reject(self, "table" if name == table else "schema", f"of 1 to {MAX_NAME_BYTES} bytes, none zero", name)
        self._table = self._psycopg.sql.Identifier(*names)
        self._table_among_values = self._psycopg.sql.Identifier(*(name.replace("%", "%%") for name in names))
        self._name = table
        self._lazy: psycopg.Connection[Any] | None = None
        self._connection()

    def _create(self, n_bits: int) -> None:
        """Make the table, and the extension pgvector if the database lacks it."""
        with self._transaction() as cursor:
            self._run(cursor, "SET LOCAL client_min_messages = warning")
            self._run(cursor, "CREATE EXTENSION IF NOT EXISTS vector")
            columns: LiteralString = "id bigint PRIMARY KEY, code bit({n}) NOT NULL, name text UNIQUE, payload jsonb"
            self._run(cursor, "CREATE TABLE {table} (" + columns + ")", n=n_bits)
            # long codes are stored out of line as they are: compressing random bits gains nothing
            self._run(cursor, "ALTER TABLE {table} ALTER COLUMN code SET STORAGE EXTERNAL")

    def _count(self) -> int:
        with self._transaction() as cursor:
            return int(self._run(cursor, "SELECT count(*) FROM {table}").fetchall()[0][0])

    def drop(self) -> None:
        """Delete the table."""
        if self._stored_bits() is not None:
            with self._transaction() as cursor:
                self._run(cursor, "DROP TABLE {table}")

    def close(self) -> None:
        """Close the connection; every batch was committed when it was added."""
        if self._lazy is not None:
            self._lazy.close()
            self._lazy = None

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

    def _run(
        self, cursor: psycopg.Cursor[Any], text: LiteralString, values: Any = None, **numbers: int
    ) -> psycopg.Cursor[Any]:
        """Run one statement; the table is quoted as an identifier, `numbers` as literals, and `values` are bound."""
        sql = self._psycopg.sql
        parts = {name: sql.Literal(number) for name, number in numbers.items()}
        table = self._table if values is None else self._table_among_values  # a % would be taken for a placeholder
        return cursor.execute(sql.SQL(text).format(table=table, **parts), values)

    def _where(self) -> str:
        return f"PostgreSQL, table {self._name!r}"

    def _stored_bits(self) -> int | None:
        text = """
            SELECT a.atttypid = 'bit'::regtype, a.atttypmod
            FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'code' AND NOT a.attisdropped
            WHERE c.oid = to_regclass(%s)"""
        with self._transaction() as cursor:
            rows = cursor.execute(text, [self._table.as_string(cursor)]).fetchall()
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
        with self._transaction() as cursor:
            rows = cursor.execute(text, [self._table.as_string(cursor)]).fetchall()
        if not rows:
            return FLAT
        method, options = rows[0]
        settings = dict(option.split("=", 1) for option in options or [])
        return IndexKind("hnsw") if method == "hnsw" else IndexKind("ivf", int(settings.get("lists", 100)))

    def _largest_id(self) -> int:
        with self._transaction() as cursor:
            return int(self._run(cursor, "SELECT coalesce(max(id), -1) FROM {table}").fetchall()[0][0])

    def _known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        known: list[int] = []
        with self._transaction() as cursor:
            for start, stop in split_rows(len(ids), VALUES_PER_QUESTION):
                rows = self._run(cursor, "SELECT id FROM {table} WHERE id = ANY(%s)", [ids[start:stop].tolist()])
                known += [row[0] for row in rows]
        return np.array(known, dtype=np.int64)

    def _stored_ids(self) -> NDArray[np.int64]:
        with self._transaction() as cursor:
            rows = self._run(cursor, "SELECT id FROM {table}").fetchall()
        return np.array([row[0] for row in rows], dtype=np.int64)

    def _stored_codes(self) -> NDArray[np.uint8]:
        statement = self._psycopg.sql.SQL("COPY (SELECT id, code FROM {} ORDER BY id) TO STDOUT (FORMAT BINARY)")
        with self._transaction() as cursor, cursor.copy(statement.format(self._table)) as copy:
            content = b"".join(bytes(part) for part in copy)
        rows = np.frombuffer(content[len(COPY_SIGNATURE) : -len(COPY_END)], _row_layout(code_bytes(self.n_bits)))
        return np.asarray(REVERSED[rows["code"]])

    def _replace(self, codes: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        n_bits = self.n_bits
        with self._transaction() as cursor:
            self._run(cursor, "CREATE TEMP TABLE recoded (id bigint, code bit({n})) ON COMMIT DROP", n=n_bits)
            with cursor.copy("COPY recoded (id, code) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(COPY_SIGNATURE)
                copy.write(_binary_rows(codes, numbers, n_bits))
                copy.write(COPY_END)
            self._run(cursor, "UPDATE {table} AS t SET code = r.code FROM recoded AS r WHERE t.id = r.id")

    def _add_batch(self, batch: NewCodes) -> None:
        sql = self._psycopg.sql
        if batch.names is None and batch.payload is None:
            rows = _binary_rows(batch.codes, batch.ids, self.n_bits)
            statement = sql.SQL("COPY {} (id, code) FROM STDIN (FORMAT BINARY)").format(self._table)
            with self._transaction() as cursor, cursor.copy(statement) as copy:
                copy.write(COPY_SIGNATURE)
                copy.write(rows)
                copy.write(COPY_END)
            return
        self._need_labels()
        nothing = [None] * len(batch.ids)
        columns = zip(
            batch.ids.tolist(),
            _texts(batch.codes, self.n_bits),
            batch.names or nothing,
            batch.payload or nothing,
            strict=True,
        )
        statement = sql.SQL("COPY {} (id, code, name, payload) FROM STDIN").format(self._table)
        with self._transaction() as cursor, cursor.copy(statement) as copy:
            for row in columns:
                copy.write_row(row)

    def _need_labels(self) -> None:
        """Add columns for texts to a table of version 0.1.0."""
        with self._transaction() as cursor:
            self._run(cursor, "SET LOCAL client_min_messages = warning")
            add: LiteralString = "ADD COLUMN IF NOT EXISTS name text UNIQUE, ADD COLUMN IF NOT EXISTS payload jsonb"
            self._run(cursor, "ALTER TABLE {table} " + add)

    def _has_labels(self) -> bool:
        text = """
            SELECT count(*) FROM pg_attribute
            WHERE attrelid = to_regclass(%s) AND attname IN ('name', 'payload') AND NOT attisdropped"""
        with self._transaction() as cursor:
            return bool(cursor.execute(text, [self._table.as_string(cursor)]).fetchall()[0][0] == 2)

    def _is_named(self) -> bool:
        if not self._has_labels():
            return False
        with self._transaction() as cursor:
            return bool(
                self._run(cursor, "SELECT EXISTS (SELECT FROM {table} WHERE name IS NOT NULL)").fetchall()[0][0]
            )

    def _select(self, column: str, values: list[Any]) -> Iterable[Row]:
        if not self._has_labels():
            return []
        by: LiteralString = "name" if column == "name" else "id"
        with self._transaction() as cursor:
            text: LiteralString = "SELECT id, name, payload::text FROM {table} WHERE " + by + " = ANY(%s)"
            return self._run(cursor, text, [values]).fetchall()

    def _build(self, kind: IndexKind) -> None:
        if self.n_bits > MAX_INDEXED_BITS:
            raise ValueError(f"pgvector indexes codes of at most {MAX_INDEXED_BITS} bits. Got {self.n_bits} bits.")
        with self._transaction() as cursor:
            if kind.name == "hnsw":
                self._run(cursor, "CREATE INDEX ON {table} USING hnsw (code bit_hamming_ops)")
            else:
                text: LiteralString = "CREATE INDEX ON {table} USING ivfflat (code bit_hamming_ops) WITH (lists = {n})"
                self._run(cursor, text, n=kind.n_lists)

    def _fetch(self, points: NDArray[np.uint8], wanted: Wanted) -> Nearest:
        n_bits = self.n_bits
        order: LiteralString = "code <~> %(point)s::bit({n})"  # an index serves exactly this order, without the id
        order_by: LiteralString = order + ", id" if wanted.kind == FLAT else order
        where: LiteralString = "" if wanted.allow is None else " WHERE id = ANY(%(allow)s)"
        select: LiteralString = (
            "SELECT " + order + ", id FROM {table}" + where + " ORDER BY " + order_by + " LIMIT %(k)s"
        )
        values = {"k": wanted.k} if wanted.allow is None else {"k": wanted.k, "allow": wanted.allow.tolist()}
        with self._transaction() as cursor:
            for name, value in _settings(wanted.kind, wanted.effort).items():
                cursor.execute("SELECT set_config(%s, %s, true)", [name, value])
            answers = (
                self._run(cursor, select, {"point": text, **values}, n=n_bits).fetchall()
                for text in _texts(points, n_bits)
            )
            return collect(answers, len(points), wanted.k)


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
