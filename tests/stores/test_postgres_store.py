"""PostgreSQL: quoting, bit order, lost connections, and servers that are not there."""

import sys

import numpy as np
import pytest

from projbank.bits import unpack
from projbank.search import HammingIndex
from projbank.stores import PostgresStore

psycopg = pytest.importorskip("psycopg", reason="needs the extra 'postgres'")


@pytest.fixture
def store(postgres_address):
    with PostgresStore(postgres_address, "plain") as opened:
        yield opened
        opened.drop()


@pytest.fixture
def admin(postgres_address):
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("table", ['we"ird; DROP TABLE x; --', "Mixed Case", "select", "ü%s{table}"])
def test_any_name_is_quoted(postgres_address, table):
    with PostgresStore(postgres_address, table) as opened:
        opened.create(9).add(np.zeros((2, 2), np.uint8))
        opened.build_index("hnsw")
        assert opened.search(np.zeros((1, 2), np.uint8))[1].tolist() == [[0, 1]]
        opened.drop()


@pytest.mark.parametrize("table", ["", "t" * 64, "\N{SNOWMAN}" * 22, "a\0b"])
def test_names_that_postgresql_would_cut_are_refused(postgres_address, table):
    with pytest.raises(ValueError, match=r"'table' parameter of PostgresStore must be of 1 to 63 bytes"):
        PostgresStore(postgres_address, table)


def test_names_of_63_bytes_are_apart(postgres_address):
    first, second = (PostgresStore(postgres_address, "t" * 62 + letter) for letter in "ab")
    with first, second:
        first.create(8).add(np.zeros((3, 1), np.uint8))
        second.create(16)
        assert (first.count(), second.count()) == (3, 0)
        first.drop()
        second.drop()


def test_schemas_are_apart(postgres_address, admin):
    admin.execute('CREATE SCHEMA "other place"')
    with (
        PostgresStore(postgres_address, "t", schema="other place") as other,
        PostgresStore(postgres_address, "t") as here,
    ):
        other.create(16)
        here.create(8)
        assert (other.n_bits, here.n_bits) == (16, 8)
        here.drop()
        assert other.count() == 0
    admin.execute('DROP SCHEMA "other place" CASCADE')


def test_bit_p_is_the_pth_from_the_left(store, admin):
    codes = np.random.default_rng(0).integers(0, 256, (5, 3), dtype=np.uint8)
    store.create(19).add(codes)
    stored = [row[0] for row in admin.execute("SELECT code::text FROM plain ORDER BY id")]
    assert stored == ["".join("1" if bit else "0" for bit in row) for row in unpack(codes, 19)]


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_the_longest_codes_can_be_indexed(store, kind):
    codes = np.random.default_rng(0).integers(0, 256, (20, 8000), dtype=np.uint8)
    store.create(64_000).add(codes).build_index(kind)
    np.testing.assert_array_equal(store.search(codes, 1)[1][:, 0], np.arange(20))
    store.drop()
    store.create(64_008).add(np.zeros((1, 8001), np.uint8))
    with pytest.raises(ValueError, match=r"at most 64000 bits\. Got 64008"):
        store.build_index(kind)


def test_the_index_is_used(store, admin):
    store.create(64).add(np.random.default_rng(0).integers(0, 256, (3000, 8), dtype=np.uint8)).build_index("hnsw")
    admin.execute("ANALYZE plain")
    store.search(np.zeros((3, 8), np.uint8), 10)
    store.close()  # statistics are sent at the latest when the session ends
    uses = "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE relname = 'plain' AND indexrelname LIKE '%code%'"
    for _ in range(100):
        if admin.execute(uses).fetchone()[0]:
            break
        admin.execute("SELECT pg_sleep(0.05)")
    assert admin.execute(uses).fetchone()[0] >= 3


def test_a_connection_lost_in_the_middle_leaves_whole_batches(store, admin, monkeypatch):
    codes = np.random.default_rng(0).integers(0, 256, (50, 4), dtype=np.uint8)
    store.create(32)
    real = psycopg.Copy.write
    writes = 0

    def write(copy, data):
        nonlocal writes
        writes += 1
        if writes == 3 * 3:  # three writes per batch: the end of the third one never arrives
            admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query LIKE 'COPY%'")
        real(copy, data)

    monkeypatch.setattr(psycopg.Copy, "write", write)
    with pytest.raises(ConnectionError, match=r"lost.*after 20 of 50 codes were stored"):
        store.add(codes, batch_rows=10)
    monkeypatch.undo()
    assert admin.execute("SELECT count(*), max(id) FROM plain").fetchone() == (20, 19)
    store.add(codes[20:], batch_rows=10)  # a new connection is made, and the rest fits
    index = HammingIndex(codes)
    for found, expected in zip(store.search(codes, 50), index.search(codes, 50), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_id_that_appears_meanwhile_spoils_only_its_batch(store, admin, monkeypatch):
    store.create(8)

    def new_ids(ids, *_):
        admin.execute("INSERT INTO plain VALUES (7, B'00000000')")
        return ids, None

    monkeypatch.setattr("projbank.stores.base.new_ids", new_ids)
    with pytest.raises(ValueError, match=r"ids must be new.*\(id\)=\(7\)"):
        store.add(np.zeros((10, 1), np.uint8), np.arange(10), batch_rows=5)
    assert [row[0] for row in admin.execute("SELECT id FROM plain ORDER BY id")] == [0, 1, 2, 3, 4, 7]


def test_a_table_of_something_else_is_told_and_kept(store, admin):
    admin.execute("CREATE TABLE plain (id int, code text)")
    admin.execute("INSERT INTO plain VALUES (1, 'a')")
    for call in (lambda: store.create(8), store.drop, lambda: store.search(np.zeros((1, 1), np.uint8))):
        with pytest.raises(ValueError, match=r"no column code of type bit"):
            call()
    assert admin.execute("SELECT count(*) FROM plain").fetchone() == (1,)
    admin.execute("DROP TABLE plain")


def test_a_server_that_is_down(tmp_path):
    with pytest.raises(ConnectionError, match="can't be reached") as caught:
        PostgresStore(f"host={tmp_path} dbname=postgres user=postgres password=hidden")
    assert "hidden" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_address():
    with pytest.raises(ValueError, match="address is not one of PostgreSQL"):
        PostgresStore("no address at all")


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[postgres\]'"):
        PostgresStore("")


def test_a_table_without_columns_for_texts_gets_them(postgres_address, admin):
    admin.execute("CREATE EXTENSION IF NOT EXISTS vector")
    admin.execute("CREATE TABLE older (id bigint PRIMARY KEY, code bit(8) NOT NULL)")
    admin.execute("INSERT INTO older VALUES (4, B'00000000')")
    with PostgresStore(postgres_address, "older") as opened:
        assert opened.search(np.zeros((1, 1), np.uint8))[1].tolist() == [[4]]
        assert opened.payload([4]) == [None]
        opened.add(np.ones((1, 1), np.uint8), payload=[{"a": 1}])
        assert opened.payload([5, 4]) == [{"a": 1}, None]
        opened.drop()
