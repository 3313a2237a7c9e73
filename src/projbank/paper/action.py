"""Recognition: a linear SVM on codes and on the uncompressed vectors, over given folds or drawn ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from projbank.bits import unpack
from projbank.evaluate.data import DataSet
from projbank.evaluate.results import Record, ResultFile
from projbank.evaluate.retrieval import ORIGINAL, Cell, build_method, plan_keys, take
from projbank.evaluate.runner import Experiment
from projbank.threads import split_rows

N_FOLDS = 5
C = 100.0
"""The SVM's parameter; every row has length 1, whatever the method."""

MOST_COMPACT = 4000
"""With more rows than this, finding the space that they span would take longer than it saves."""

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


class Action(Experiment):
    """Accuracy of a linear SVM: methods and SVM are fitted on the training rows of a fold, and judged on its test rows.

    Parameters
    ----------
    data : vectors and labels
    cells : methods, lengths and parameters
    results : where records go
    seeds : seed the method and, where folds are drawn, the folds
    folds : training and test rows of each given fold; none: five stratified folds are drawn
    n_jobs : threads
    """

    name = "action"

    def __init__(
        self,
        data: DataSet,
        cells: Iterable[Cell],
        results: ResultFile,
        *,
        seeds: Iterable[int],
        folds: Sequence[Fold] = (),
        n_jobs: int | None = None,
    ) -> None:
        self._given = list(folds)
        kind = f"{len(folds)} given" if folds else f"{N_FOLDS} drawn"
        protocol: Record = {"experiment": self.name, "folds": kind, "svm": f"LinearSVC, C={C:g}, rows of length 1"}
        if folds:
            protocol["fold_sizes"] = [[len(train), len(test)] for train, test in folds]
        super().__init__(plan_keys(data, protocol, cells, seeds), results)
        self._data, self._n_jobs = data, n_jobs
        self._rows: NDArray[np.float32] | None = None

    def measure(self, key: Record) -> Record:
        """Accuracy in each fold and their mean, in per cent."""
        if self._rows is None:
            self._rows = take(self._data.vectors, np.arange(self._data.vectors.shape[0]))
        accuracies = []
        sizes: Record = {}
        for train, test in self._folds(key["seed"]):
            rows, sizes = self._features(key, train)
            features = compact(rows)
            machine = LinearSVC(C=C, dual=True, random_state=key["seed"], max_iter=5000)
            machine.fit(features[train], self._data.labels[train])
            accuracies.append(100 * float(machine.score(features[test], self._data.labels[test])))
        return sizes | {"accuracies": accuracies, "accuracy": float(np.mean(accuracies))}

    def headline(self, record: Record) -> str:
        """Mean accuracy."""
        return f"{record['accuracy']:.2f} %"

    def close(self) -> None:
        """Let go of the rows."""
        self._rows = None

    def _folds(self, seed: int) -> Iterable[Fold]:
        if self._given:
            return self._given
        drawn = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
        return drawn.split(np.zeros(len(self._data.labels)), self._data.labels)

    def _features(self, key: Record, train: NDArray[np.int64]) -> tuple[NDArray[np.float32], Record]:
        """Rows for the SVM, each of length 1, and how many bytes a code has."""
        assert self._rows is not None
        if key["method"] == ORIGINAL:
            return normalize(self._rows), {"bits": 32 * self._rows.shape[1], "code_bytes": 4 * self._rows.shape[1]}
        method = build_method(key, self._n_jobs).fit(self._rows[train])
        sizes = {"bits": int(method.n_bits_), "code_bytes": int(method.code_bytes)}
        return normalize(as_features(method, method.transform(self._rows))), sizes


def compact(rows: NDArray[np.float32]) -> NDArray[np.floating]:
    """Rows in coordinates of the space that they span: no more than n, with the same inner products.

    A linear SVM sees its data through inner products only, so this changes nothing but the time it takes.
    """
    n, width = rows.shape
    if width <= n or n > MOST_COMPACT:
        return rows
    products = np.zeros((n, n))
    for start, stop in split_rows(width, 4096):
        part = rows[:, start:stop].astype(np.float64)
        products += part @ part.T
    values, vectors = np.linalg.eigh(products)
    kept = values > 1e-12 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def as_features(method: Any, codes: NDArray[Any]) -> NDArray[np.float32]:
    """Codes as numbers that a linear SVM can work with: bits as -1 and 1, quantised vectors as their centres."""
    if method.distance == "hamming":
        return np.where(unpack(codes, method.n_bits_), np.float32(1), np.float32(-1))
    if method.distance == "l2":
        return codes
    if not hasattr(method, "decode"):
        raise ValueError(f"codes of {type(method).__name__} can only be compared, they are no input for an SVM.")
    return method.decode(codes)
