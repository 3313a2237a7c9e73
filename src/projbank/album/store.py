"""What an album knows, in one SQLite file: files, their contents, codes, and the models that made these."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from projbank.album.compare import LOOK_BITS

FORMAT = 1
MOST_BITS = 1 << 14
_MODEL_FILE = re.compile(r"model-\d+\.safetensors")
OK, DAMAGED, LACKING = "ok", "damaged", "lacking"
"""States of a content: described; can't be decoded; can't be decoded until a package is installed."""
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE models (
    version INTEGER PRIMARY KEY, file TEXT NOT NULL, identity TEXT NOT NULL, describer TEXT NOT NULL,
    n_bits INTEGER NOT NULL, learnt_from INTEGER NOT NULL
);
CREATE TABLE contents (
    id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, width INTEGER NOT NULL,
    height INTEGER NOT NULL, orientation INTEGER NOT NULL, look BLOB NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX contents_by_size ON contents (size);
CREATE TABLE codes (
    version INTEGER NOT NULL, content INTEGER NOT NULL, code BLOB NOT NULL, PRIMARY KEY (version, content)
) WITHOUT ROWID;
CREATE TABLE files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, content INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX files_by_content ON files (content);
CREATE TABLE problems (path TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
"""


class AlbumError(ValueError):
    """There is no album, it is damaged, or it was written by a newer version."""


class File(NamedTuple):
    """A file as it was when it was last looked at."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Content:
    """What a photo's bytes hold, wherever they lie."""

    hash: bytes
    size: int
    width: int = 0
    height: int = 0
    orientation: int = 1
    look: bytes = b""
    state: str = OK
    reason: str = ""


class Model(NamedTuple):
    """A version of describer and bank."""

    version: int
    file: str
    identity: str
    describer: str
    n_bits: int
    learnt_from: int


Row = TypeVar("Row", File, Content, Model)
_TYPES = {kind: tuple(get_type_hints(kind).values()) for kind in (File, Content, Model)}


class Store:
    """The tables of an album. A change is whole or not there: every method that writes is one transaction.

    Parameters
    ----------
    path : the file
    create : whether to make it where it is missing
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if not create and not path.exists():
            folder = path.parent.parent
            raise AlbumError(f"{folder}: is no album yet; make it with: projbank album {folder}")
        self.path = path
        with self._errors():
            self._sql = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self._sql.execute("PRAGMA journal_mode=WAL")
            self._sql.execute("PRAGMA synchronous=NORMAL")
            with self.transaction():
                if not self._sql.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                    for statement in _SCHEMA.split(";"):
                        self._sql.execute(statement)
                    self.put("format", FORMAT)
            found = self.get("format")
        if found is None or not found.isdigit():
            raise AlbumError(f"{path}: is no index of an album.")
        if int(found) > FORMAT:
            raise AlbumError(f"{path}: written by a newer projbank (format {found}); upgrade to read it.")

    def close(self) -> None:
        """Close the file."""
        self._sql.close()

    @contextlib.contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[None]:
        """All of the statements inside, or none; without `write` one state of the album for all of them."""
        with self._errors():
            if self._sql.in_transaction:
                yield
                return
            self._sql.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield
            except BaseException:
                self._sql.execute("ROLLBACK")
                raise
            self._sql.execute("COMMIT")

    def _damage(self, how: object) -> AlbumError:
        return AlbumError(f"{self.path}: is damaged ({how}); remove the folder {self.path.parent} and make it again.")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise self._damage(error) from error

    def _all(self, statement: str, *values: Any) -> list[Any]:
        with self._errors():
            return self._sql.execute(statement, values).fetchall()

    def changes(self) -> int:
        """Number that differs after another connection has changed the album."""
        return int(self._all("PRAGMA data_version")[0][0]) * 1_000_000 + self._sql.total_changes % 1_000_000

    def _made(self, kind: type[Row], row: tuple[Any, ...]) -> Row:
        """A row as what it is; SQLite itself does not keep columns to their types."""
        if tuple(map(type, row)) != _TYPES[kind]:
            raise self._damage(f"a {kind.__name__.lower()} that is none")
        return kind(*row)

    def _model(self, rows: list[Any]) -> Model | None:
        model = self._made(Model, rows[0]) if rows else None
        if model is not None and not (_MODEL_FILE.fullmatch(model.file) and 0 < model.n_bits <= MOST_BITS):
            raise self._damage("a model that is none")  # its file is read, and removed in the end
        return model

    def _bytes_of(self, rows: list[Any], width: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Numbers, and as many rows of `width` bytes."""
        if any(type(row[0]) is not int or type(row[1]) is not bytes or len(row[1]) != width for row in rows):
            raise self._damage(f"codes that are not of {width} bytes")
        ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        return ids, np.frombuffer(b"".join(row[1] for row in rows), dtype=np.uint8).reshape(len(rows), width)

    # settings and models

    def get(self, key: str) -> str | None:
        """Return a setting."""
        found = self._all("SELECT value FROM meta WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def put(self, key: str, value: object) -> None:
        """Keep a setting."""
        with self.transaction():
            self._sql.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(value)))

    def model(self) -> Model | None:
        """Return the model that answers."""
        found = self._all("SELECT m.* FROM models m JOIN meta ON key = 'current' AND version = CAST(value AS INTEGER)")
        return self._model(found)

    def unfinished(self) -> Model | None:
        """Return the newest model, if the album does not answer by it yet."""
        current = self.model()
        least = current.version if current else 0
        found = self._all("SELECT * FROM models WHERE version > ? ORDER BY version DESC", least)
        return self._model(found)

    def next_version(self) -> int:
        """Number of a new model."""
        return 1 + int(self._all("SELECT COALESCE(MAX(version), 0) FROM models")[0][0])

    def add_model(self, model: Model) -> None:
        """Add a model, whose file is there."""
        with self.transaction():
            self._sql.execute("INSERT INTO models VALUES (?, ?, ?, ?, ?, ?)", model)

    def answer_by(self, model: Model) -> list[str]:
        """Make a model the one that answers, and forget the others; their files are returned."""
        with self.transaction():
            others = self._all("SELECT * FROM models WHERE version != ?", model.version)
            gone = [found.file for row in others if (found := self._model([row]))]
            self.put("current", model.version)
            self._sql.execute("DELETE FROM models WHERE version != ?", (model.version,))
            self._sql.execute("DELETE FROM codes WHERE version != ?", (model.version,))
        return gone

    # what was seen in the folder

    def see(self, files: Iterable[File], problems: Iterable[tuple[str, str]]) -> None:
        """Note what a look at the folder found; the methods below compare with it."""
        with self.transaction():
            self._sql.execute(
                "CREATE TEMP TABLE IF NOT EXISTS seen (path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER) "
                "WITHOUT ROWID"
            )
            self._sql.execute("DELETE FROM seen")
            self._sql.executemany("INSERT INTO seen VALUES (?, ?, ?)", files)
            self._sql.execute("DELETE FROM problems")
            self._sql.executemany("INSERT OR REPLACE INTO problems VALUES (?, ?)", problems)

    def add_problem(self, path: str, reason: str) -> None:
        """Note why a file is not in the album."""
        with self.transaction():
            self._sql.execute("INSERT OR REPLACE INTO problems VALUES (?, ?)", (path, reason))

    def forget_gone(self) -> int:
        """Forget files that are gone; their contents stay until `forget_unused`."""
        with self.transaction():
            return self._sql.execute("DELETE FROM files WHERE path NOT IN (SELECT path FROM seen)").rowcount

    def forget_lacking(self) -> None:
        """Forget contents that a package was missing for, so that they are tried again."""
        with self.transaction():
            lacking = "(SELECT id FROM contents WHERE state = ?)"
            self._sql.execute(f"DELETE FROM files WHERE content IN {lacking}", (LACKING,))
            self._sql.execute("DELETE FROM contents WHERE state = ?", (LACKING,))

    def forget_unused(self) -> None:
        """Forget contents that no file has any more."""
        with self.transaction():
            self._sql.execute("DELETE FROM contents WHERE id NOT IN (SELECT content FROM files)")
            self._sql.execute("DELETE FROM codes WHERE content NOT IN (SELECT id FROM contents)")

    def changed(self) -> list[File]:
        """Files that are new or not as they were, in order."""
        found = self._all(
            "SELECT s.path, s.size, s.mtime_ns FROM seen s LEFT JOIN files f ON f.path = s.path AND f.size = s.size "
            "AND f.mtime_ns = s.mtime_ns WHERE f.path IS NULL ORDER BY s.path"
        )
        return [self._made(File, row) for row in found]

    def known_sizes(self) -> set[int]:
        """Lengths of all contents: a file of another length is new."""
        return {row[0] for row in self._all("SELECT DISTINCT size FROM contents")}

    def content_id(self, digest: bytes) -> int | None:
        """Number of a content by its hash."""
        found = self._all("SELECT id FROM contents WHERE hash = ?", digest)
        return int(found[0][0]) if found else None

    def add(self, version: int, rows: Iterable[tuple[File | None, Content, bytes | None]]) -> None:
        """Add contents with their codes, and the files that have them (None where the file is there already)."""
        with self.transaction():
            for file, content, code in rows:
                number = self.content_id(content.hash)
                if number is None:
                    cursor = self._sql.execute(
                        "INSERT INTO contents (hash, size, width, height, orientation, look, state, reason) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        astuple(content),
                    )
                    number = cursor.lastrowid
                if code is not None:
                    self._sql.execute("INSERT OR REPLACE INTO codes VALUES (?, ?, ?)", (version, number, code))
                if file is not None:
                    self._sql.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (*file, number))

    def add_copies(self, rows: Iterable[tuple[File, int]]) -> None:
        """Add files whose contents are known."""
        with self.transaction():
            self._sql.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", ((*file, content) for file, content in rows)
            )

    def without_code(self, version: int) -> list[File]:
        """A file of each content that a model has not coded yet."""
        found = self._all(
            "SELECT MIN(f.path), f.size, f.mtime_ns FROM contents c JOIN files f ON f.content = c.id WHERE c.state = ? "
            "AND c.id NOT IN (SELECT content FROM codes WHERE version = ?) GROUP BY c.id ORDER BY 1",
            OK,
            version,
        )
        return [self._made(File, row) for row in found]

    # what answers need

    def codes(self, model: Model) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Numbers and codes of all contents that some file has."""
        rows = self._all(
            "SELECT content, code FROM codes WHERE version = ? AND content IN (SELECT content FROM files) "
            "ORDER BY content",
            model.version,
        )
        return self._bytes_of(rows, (model.n_bits + 7) // 8)

    def looks(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Numbers and fingerprints of all contents that some file has."""
        rows = self._all(
            "SELECT id, look FROM contents WHERE state = ? AND id IN (SELECT content FROM files) ORDER BY id", OK
        )
        return self._bytes_of(rows, LOOK_BITS // 8)

    def files_of(self, content: int) -> list[File]:
        """Files that have a content, in order."""
        rows = self._all("SELECT path, size, mtime_ns FROM files WHERE content = ? ORDER BY path", content)
        return [self._made(File, row) for row in rows]

    def content(self, number: int) -> Content | None:
        """A content by its number."""
        rows = self._all(
            "SELECT hash, size, width, height, orientation, look, state, reason FROM contents WHERE id = ?", number
        )
        return self._made(Content, rows[0]) if rows else None

    def page(self, start: int, most: int) -> list[tuple[int, str, int, int]]:
        """Number, path, width and height of photos in the order of their paths, one page of them."""
        return self._all(
            "SELECT f.content, f.path, c.width, c.height FROM files f JOIN contents c ON c.id = f.content "
            "WHERE c.state = ? ORDER BY f.path LIMIT ? OFFSET ?",
            OK,
            most,
            start,
        )

    def count(self) -> int:
        """Number of photos."""
        return int(
            self._all("SELECT COUNT(*) FROM files f JOIN contents c ON c.id = f.content WHERE c.state = ?", OK)[0][0]
        )

    def problems(self) -> list[tuple[str, str]]:
        """Path and reason of everything that is not in the album though it might be, in order."""
        return self._all(
            "SELECT path, reason FROM problems UNION SELECT f.path, c.reason FROM files f JOIN contents c "
            "ON c.id = f.content WHERE c.state != ? ORDER BY 1",
            OK,
        )
