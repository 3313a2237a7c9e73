"""SQLite: one file with any tables, plain errors."""

import sqlite3

import numpy as np
import pytest

from projbank.stores import SqliteStore

pytest.importorskip("sqlite_vec", reason="needs the extra 'sqlite'")


def test_tables_of_one_file_are_apart(tmp_path):
    path = tmp_path / "all.db"
    with SqliteStore(path, "a") as one, SqliteStore(path, 'b"; DROP TABLE a; --') as other:
        one.create(16).add(np.zeros((3, 2), np.uint8), ["x", "y", "z"], payload=[1, 2, 3])
        other.create(9).add(np.ones((2, 2), np.uint8))
        assert (one.count(), other.count(), other.n_bits) == (3, 2, 9)
        other.drop()
        assert one.count() == 3
    with sqlite3.connect(path) as plain:
        assert plain.execute("SELECT name, payload, hex(code) FROM a ORDER BY id").fetchall()[1] == ("y", "2", "0000")


@pytest.mark.parametrize("n_bits", [64, 8000, 70_000])
def test_long_codes(tmp_path, n_bits):
    codes = np.random.default_rng(0).integers(0, 256, (30, n_bits // 8), dtype=np.uint8)
    with SqliteStore(tmp_path / "codes.db") as store:
        store.create(n_bits).add(codes)
        expected = np.sort(np.bitwise_count(codes[:1] ^ codes).sum(axis=1, dtype=int))
        assert store.search(codes[:1], 30)[0].tolist() == [expected.tolist()]


def test_other_files(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n" * 400)
    with pytest.raises(OSError, match="not a database"):
        SqliteStore(tmp_path / "picture.png")
    with pytest.raises(FileNotFoundError, match="no folder"):
        SqliteStore(tmp_path / "none" / "codes.db")
    with pytest.raises(ValueError, match="'table' parameter"):
        SqliteStore(tmp_path / "codes.db", "")
