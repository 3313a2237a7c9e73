"""LanceDB: foreign tables, and several tables in one database."""

import sys

import numpy as np
import pytest

from projbank.stores import LanceStore

lancedb = pytest.importorskip("lancedb", reason="needs the extra 'lancedb'")


def test_tables_of_one_database_are_apart(tmp_path):
    with LanceStore(tmp_path, "a") as a, LanceStore(tmp_path, "b") as b:
        a.create(8).add(np.zeros((3, 1), np.uint8))
        b.create(16)
        assert (a.count(), b.count(), b.n_bits) == (3, 0, 16)


def test_a_table_of_something_else_is_told(tmp_path):
    lancedb.connect(tmp_path).create_table("codes", [{"id": 1, "code": [1.0, 2.0]}])
    with pytest.raises(ValueError, match="not a table of codes"):
        LanceStore(tmp_path)
    assert lancedb.connect(tmp_path).open_table("codes").count_rows() == 1


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        LanceStore(tmp_path / "file")


@pytest.mark.parametrize("table", ["../codes", "a/b", "x'; DROP TABLE y; --", ""])
def test_a_name_that_is_no_file_name_is_refused(tmp_path, table):
    with pytest.raises(ValueError, match="name"):
        LanceStore(tmp_path / "db", table).create(8)
    assert not (tmp_path / "codes.lance").exists()


def test_without_lancedb_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[lancedb\]'"):
        LanceStore(tmp_path)
