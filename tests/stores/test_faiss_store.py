"""FAISS files: readable by FAISS itself, refused with a reason when damaged."""

import json

import faiss
import numpy as np
import pytest

from projbank.stores import FaissStore


@pytest.fixture
def folder(tmp_path):
    with FaissStore(tmp_path / "store") as store:
        store.create(24).add(np.arange(30, dtype=np.uint8).reshape(10, 3))
    return tmp_path / "store"


def test_faiss_reads_the_file(folder):
    index = faiss.read_index_binary(str(folder / "index.faiss"))
    assert (index.d, index.ntotal) == (24, 10)


def test_nothing_is_written_without_close(folder):
    store = FaissStore(folder)
    store.add(np.zeros((1, 3), np.uint8))
    assert FaissStore(folder).count() == 10
    store.close()
    assert FaissStore(folder).count() == 11


def test_drop_keeps_what_is_not_its_own(folder):
    (folder / "notes.txt").touch()
    FaissStore(folder).drop()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_damaged_stores(folder, tmp_path):
    (folder / "index.faiss").write_bytes((folder / "index.faiss").read_bytes()[:40])
    with pytest.raises(ValueError, match="damaged store"):
        FaissStore(folder)
    (folder / "store.json").write_text("[]")
    with pytest.raises(ValueError, match="damaged store"):
        FaissStore(folder)
    (folder / "store.json").unlink()
    with pytest.raises(ValueError, match="not a store of projbank"):
        FaissStore(folder)
    assert (folder / "index.faiss").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="not a store of projbank"):
        FaissStore(tmp_path / "file")


def test_every_damaged_byte_of_an_index_is_told(folder):
    content = (folder / "index.faiss").read_bytes()
    for place in range(0, len(content), 7):
        (folder / "index.faiss").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match="damaged store"):
            FaissStore(folder)


def test_every_damaged_byte_of_texts_is_told(tmp_path):
    folder = tmp_path / "store"
    with FaissStore(folder) as store:
        store.create(20).add(np.zeros((3, 3), np.uint8), ids=["a", "b", "c"], payload=[1, 2, 3])
    for name in ("labels.json", "store.json"):
        content = (folder / name).read_bytes()
        for place in range(len(content)):
            (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(ValueError, match="damaged store"):
                FaissStore(folder)
        (folder / name).write_bytes(content)
    assert FaissStore(folder).payload(["c"]) == [3]


def test_faiss_reads_the_index_and_stores_of_0_1_0_are_read(folder):
    assert faiss.read_index_binary(str(folder / "index.faiss")).ntotal == FaissStore(folder).count()
    about = json.loads((folder / "store.json").read_text().splitlines()[0])
    n = FaissStore(folder).count()
    (folder / "store.json").write_text(json.dumps(about | {"version": 1}))
    faiss.write_index_binary(faiss.read_index_binary(str(folder / "index.faiss")), str(folder / "index.faiss"))
    assert FaissStore(folder).count() == n


def test_a_store_that_was_killed_while_it_was_made_is_made_anew(folder):
    (folder / "index.faiss").unlink()
    (folder / ".index.faiss.00112233.part").touch()
    (folder / ".store.json.00112233.part").touch()
    with FaissStore(folder) as store:
        store.create(20).add(np.zeros((2, 3), np.uint8))
    assert FaissStore(folder).count() == 2
    assert sorted(path.name for path in folder.iterdir()) == ["index.faiss", "store.json"]


def test_what_a_kill_left_is_removed_when_a_store_is_opened(folder):
    (folder / ".store.json.00112233.part").touch()
    n = FaissStore(folder).count()
    assert n
    assert not list(folder.glob(".*"))
