"""What a method costs: bytes of the model, seconds of training, seconds of coding on one thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

import numpy as np

from projbank.evaluate.data import DataSet, draw_split, split_sizes
from projbank.evaluate.results import Record, ResultFile
from projbank.evaluate.retrieval import Cell, build_method, plan_keys, take
from projbank.evaluate.runner import Experiment
from projbank.params import check_int

MAX_TRAINING = 2000
N_CODED = 128
TURNS = 3


class Cost(Experiment):
    """Train on few vectors and code a batch of others, best of three turns, on one thread.

    Training uses `n_jobs` threads. The machine's load stands in the record: times of a busy machine are no measure.
    """

    name = "cost"

    def __init__(
        self,
        data: DataSet,
        cells: Iterable[Cell],
        results: ResultFile,
        *,
        seeds: Iterable[int],
        n_train: int | None = None,
        n_coded: int = N_CODED,
        n_jobs: int | None = None,
    ) -> None:
        n_rows = data.vectors.shape[0]
        n_coded = check_int("cost", "n_coded", min(n_coded, n_rows // 2), 1)
        if n_train is None:
            n_train = min(MAX_TRAINING, split_sizes(n_rows, n_coded)[1])
        n_coded, n_train = split_sizes(n_rows, n_coded, n_train)
        protocol = {"experiment": self.name, "coded": n_coded, "training": n_train, "coding_threads": 1}
        super().__init__(plan_keys(data, protocol, cells, seeds), results)
        self._data, self._sizes, self._n_jobs = data, (n_coded, n_train), n_jobs
        self._seed: int | None = None
        self._batch = self._training = np.empty((0, 0), np.float32)

    def measure(self, key: Record) -> Record:
        """Bytes and seconds."""
        self._load(key["seed"])
        method = build_method(key, self._n_jobs)
        start = time.perf_counter()
        method.fit(self._training)
        training = time.perf_counter() - start
        method.set_params(n_jobs=1)
        method.transform(self._batch[:8])  # the first call compiles
        coding = min(_seconds(lambda: method.transform(self._batch)) for _ in range(TURNS))
        return {
            "distance": method.distance,
            "bits": int(method.n_bits_),
            "code_bytes": int(method.code_bytes),
            "model_bytes": int(method.model_bytes),
            "training_seconds": training,
            "coding_seconds": coding / len(self._batch),
            "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        }

    def headline(self, record: Record) -> str:
        """Training and coding time."""
        return f"training {record['training_seconds']:.1f} s, coding {1e3 * record['coding_seconds']:.3f} ms"

    def close(self) -> None:
        """Let go of the rows."""
        self._seed = None
        self._batch = self._training = np.empty((0, 0), np.float32)

    def _load(self, seed: int) -> None:
        if seed != self._seed:
            split = draw_split(self._data.vectors.shape[0], *self._sizes, seed)
            self._batch = take(self._data.vectors, split.queries)
            self._training = take(self._data.vectors, split.training)
            self._seed = seed


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
