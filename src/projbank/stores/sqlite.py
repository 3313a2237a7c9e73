"""Codes in SQLite with the extension sqlite-vec: a table in one file, ordered by `vec_distance_hamming`."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.extras import import_extra
from projbank.search.scan import Nearest, NewCodes
from projbank.stores.base import FLAT, IndexKind, Wanted, collect
from projbank.stores.sql import SqlStore

MAX_NAME = 200


class SqliteStore(SqlStore):
    """Codes in a table of an SQLite database.

    Parameters
    ----------
    path : path
        File of the database, made if need be; other tables in it are left alone.
    table : str
        Name of the table, always quoted. It has the columns `id`, `code` (a blob of whole bytes), `name` and `payload`;
        the length of the codes stands in the table `projbank_stores`.

    Notes
    -----
    Searches are exact scans by ``vec_distance_hamming``. Where Python's own sqlite3 cannot load extensions, the package
    apsw is used. Each batch of an add is one transaction.
    """

    index_kinds = ()
    _among = "IN (SELECT value FROM json_each(?))"

    def __init__(self, path: str | os.PathLike[str], table: str = "codes") -> None:
        self._path, self._name = Path(path), table
        if not 0 < len(table) <= MAX_NAME or "\0" in table:
            raise ValueError(f"The 'table' parameter of SqliteStore must be of 1 to {MAX_NAME} letters. Got {table!r}.")
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"{path}: there is no folder {self._path.parent}.")
        self._table = '"' + table.replace('"', '""') + '"'
        self._ask("CREATE TABLE IF NOT EXISTS projbank_stores (name TEXT PRIMARY KEY, n_bits INTEGER NOT NULL)")

    def _where(self) -> str:
        return f"{self._path}, table {self._name!r}"

    def _stored_bits(self) -> int | None:
        rows = self._ask("SELECT n_bits FROM projbank_stores WHERE name = ?", self._name)
        return int(rows[0][0]) if rows else None

    def _create(self, n_bits: int) -> None:
        with self._transaction() as connection:
            columns = "id INTEGER PRIMARY KEY, code BLOB NOT NULL, name TEXT UNIQUE, payload TEXT"
            connection.execute(f"CREATE TABLE {self._table} ({columns})")
            connection.execute("INSERT INTO projbank_stores VALUES (?, ?)", (self._name, n_bits))

    def drop(self) -> None:
        """Delete the table."""
        if self._stored_bits() is not None:
            with self._transaction() as connection:
                connection.execute(f"DROP TABLE {self._table}")
                connection.execute("DELETE FROM projbank_stores WHERE name = ?", (self._name,))

    def _listed(self, values: list[Any]) -> str:
        return json.dumps(values)

    def _kind(self) -> IndexKind:
        return FLAT

    def _stored_codes(self) -> NDArray[np.uint8]:
        rows = self._ask(f"SELECT code FROM {self._table} ORDER BY id")
        return np.frombuffer(b"".join(row[0] for row in rows), np.uint8).reshape(len(rows), -1)

    def _replace(self, codes: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        rows = ((code.tobytes(), number) for code, number in zip(codes, numbers.tolist(), strict=True))
        with self._transaction() as connection:
            connection.executemany(f"UPDATE {self._table} SET code = ? WHERE id = ?", rows)

    def _add_batch(self, batch: NewCodes) -> None:
        nothing = [None] * len(batch.ids)
        rows = zip(
            batch.ids.tolist(),
            (code.tobytes() for code in batch.codes),
            batch.names or nothing,
            batch.payload or nothing,
            strict=True,
        )
        with self._transaction() as connection:
            connection.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?)", rows)

    def _build(self, kind: IndexKind) -> None:
        raise ValueError("sqlite-vec has no index for bit vectors; searches are exact scans")

    def _fetch(self, points: NDArray[np.uint8], wanted: Wanted) -> Nearest:
        where = "" if wanted.allow is None else f"WHERE id {self._among}"
        values = [] if wanted.allow is None else [self._listed(wanted.allow.tolist())]
        select = (
            f"SELECT vec_distance_hamming(vec_bit(code), vec_bit(?)) AS distance, id FROM {self._table} {where} "
            "ORDER BY distance, id LIMIT ?"
        )
        answers = (self._ask(select, point.tobytes(), *values, wanted.k) for point in points)
        return collect(answers, len(points), wanted.k)

    def _ask(self, text: str, *values: Any) -> list[Any]:
        with self._errors() as connection:
            return list(connection.execute(text, values))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._errors() as connection, connection:
            yield connection

    @contextlib.contextmanager
    def _errors(self) -> Iterator[Any]:
        """Yield the open database; the engine's errors become plain ones."""
        if self._lazy is None:
            self._lazy, self._failure = _open(self._path)
        try:
            yield self._lazy
        except self._failure as error:
            raise OSError(f"{self._where()}: {' '.join(str(error).split())}") from error


def _open(path: Path) -> tuple[Any, type[Exception]]:
    """Open a database with sqlite-vec loaded; return it and the class of its errors."""
    extension = import_extra("sqlite_vec", "sqlite").loadable_path()
    connection: Any
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        connection, failure = sqlite3.connect(path), sqlite3.Error
    else:
        apsw = import_extra("apsw", "sqlite")
        try:
            connection, failure = apsw.Connection(str(path)), apsw.Error
        except apsw.Error as error:
            raise OSError(f"{path}: {error}") from error
    connection.enable_load_extension(True)
    connection.load_extension(extension)
    connection.enable_load_extension(False)
    return connection, failure
