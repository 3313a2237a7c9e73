"""What stores in SQL databases share: a table of `id`, `code`, `name` and `payload`, which orders ties by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from projbank.stores.base import VALUES_PER_QUESTION, CodeStore, Row
from projbank.threads import split_rows


class SqlStore(CodeStore):
    """Codes in a table, whose quoted name is `_table`; the connection `_lazy` is opened when it is needed."""

    orders_ties = True
    _among: ClassVar[str]
    """Condition that holds for those values of a column that `_listed` lists."""
    _table: str
    _lazy: Any = None

    def close(self) -> None:
        """Close the connection; every batch was committed when it was added."""
        if self._lazy is not None:
            self._lazy.close()
            self._lazy = None

    @abstractmethod
    def _ask(self, text: str, *values: Any) -> list[Any]:
        """Run one statement as a transaction, and return its rows."""

    @abstractmethod
    def _listed(self, values: list[Any]) -> Any:
        """One value that stands for several."""

    def _count(self) -> int:
        return int(self._ask(f"SELECT count(*) FROM {self._table}")[0][0])

    def _largest_id(self) -> int:
        return int(self._ask(f"SELECT coalesce(max(id), -1) FROM {self._table}")[0][0])

    def _known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        text = f"SELECT id FROM {self._table} WHERE id {self._among}"
        parts = (ids[start:stop].tolist() for start, stop in split_rows(len(ids), VALUES_PER_QUESTION))
        return np.array([row[0] for part in parts for row in self._ask(text, self._listed(part))], dtype=np.int64)

    def _stored_ids(self) -> NDArray[np.int64]:
        return np.array([row[0] for row in self._ask(f"SELECT id FROM {self._table}")], dtype=np.int64)

    def _is_named(self) -> bool:
        return bool(self._ask(f"SELECT EXISTS (SELECT 1 FROM {self._table} WHERE name IS NOT NULL)")[0][0])

    def _select(self, column: str, values: list[Any]) -> Iterable[Row]:
        text = f"SELECT id, name, CAST(payload AS TEXT) FROM {self._table} WHERE {column} {self._among}"
        return self._ask(text, self._listed(values))
