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
from projbank.evaluate.retrieval import ORIGINAL, Cell, build_method, plan_keys
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
    data, cells, results, n_jobs : as in `SplitExperiment`
    seeds : seed the method and, where folds are drawn, the folds
    folds : training and test rows of each given fold; none: five stratified folds are drawn
    """

    name, headline = "action", "accuracy"

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
        kind = f"{len(folds)} given" if folds else f"{N_FOLDS} drawn"
        protocol: Record = {"experiment": self.name, "folds": kind, "svm": f"LinearSVC, C={C:g}, rows of length 1"}
        if folds:
            protocol["fold_sizes"] = [[len(train), len(test)] for train, test in folds]
        super().__init__(plan_keys(data, protocol, cells, seeds), results)
        self._data, self._given, self._n_jobs = data, list(folds), n_jobs
        self._rows: NDArray[np.float32] | None = None

    def measure(self, key: Record) -> Record:
        """Accuracy in each fold and their mean, in per cent."""
        if self._rows is None:
            self._rows = self._data.take(np.arange(self._data.vectors.shape[0]))
        labels = np.asarray(self._data.labels)
        drawn = StratifiedKFold(N_FOLDS, shuffle=True, random_state=key["seed"])
        accuracies, width = [], self._rows.shape[1]
        sizes = {"bits": 32 * width, "code_bytes": 4 * width}
        for train, test in self._given or drawn.split(labels, labels):
            rows = self._rows
            if key["method"] != ORIGINAL:
                method = build_method(key, self._n_jobs).fit(rows[train])
                sizes = {"bits": int(method.n_bits_), "code_bytes": int(method.code_bytes)}
                rows = as_features(method, method.transform(rows))
            features = compact(normalize(rows))
            machine = LinearSVC(C=C, dual=True, random_state=key["seed"], max_iter=5000)
            machine.fit(features[train], labels[train])
            accuracies.append(100 * float(machine.score(features[test], labels[test])))
        return sizes | {"accuracies": accuracies, "accuracy": float(np.mean(accuracies))}

    def close(self) -> None:
        """Let go of the rows."""
        self._rows = None


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
