"""The same codes in other engines: FAISS, LanceDB, and PostgreSQL with pgvector, behind one small interface."""

from projbank.stores.base import CodeStore
from projbank.stores.faiss import FaissStore
from projbank.stores.lance import LanceStore
from projbank.stores.postgres import PostgresStore

__all__ = ["CodeStore", "FaissStore", "LanceStore", "PostgresStore"]
