"""The same codes in other engines, behind one small interface; and as files that servers import."""

from projbank.stores.base import CodeStore
from projbank.stores.export import EXPORTS, export
from projbank.stores.faiss import FaissStore
from projbank.stores.lance import LanceStore
from projbank.stores.postgres import PostgresStore
from projbank.stores.sqlite import SqliteStore

__all__ = ["EXPORTS", "CodeStore", "FaissStore", "LanceStore", "PostgresStore", "SqliteStore", "export"]
