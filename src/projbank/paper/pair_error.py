"""The paper's pairwise error: bits of small groups (E_avg) against one bit of all dimensions (E_org)."""

from __future__ import annotations

from collections.abc import Iterable

from projbank.bits import unpack
from projbank.evaluate.data import DataSet, split_sizes
from projbank.evaluate.results import Record, ResultFile
from projbank.evaluate.retrieval import ORIGINAL, Cell, Rows, build_method, plan_keys
from projbank.evaluate.runner import Experiment
from projbank.learn.neighbors import neighbor_graph
from projbank.methods import METHODS
from projbank.metrics import pair_errors
from projbank.rows.source import column_statistics
from projbank.threads import thread_count

MAX_TRAINING = 2000
N_NEIGHBORS = 100


class PairError(Experiment):
    """Share of the N^2 pairs of training vectors that a bit puts on the wrong side, averaged over bits.

    The method "original" is E_org: one bit, learnt from all dimensions by the paper's solver. Records also say what
    share of pairs is positive: a bit that splits the data into halves is wrong on about half of all pairs at least,
    for most pairs are negative and half of the pairs must fall on one side.
    """

    name = "pair-error"

    def __init__(
        self,
        data: DataSet,
        cells: Iterable[Cell],
        results: ResultFile,
        *,
        seeds: Iterable[int],
        n_queries: int | None = None,
        n_train: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        n_rows = data.vectors.shape[0]
        if n_train is None:
            n_train = min(MAX_TRAINING, split_sizes(n_rows, n_queries)[1])
        n_queries, n_train = split_sizes(n_rows, n_queries, n_train)
        neighbors = min(N_NEIGHBORS, n_train - 1)
        protocol = {"experiment": self.name, "queries": n_queries, "training": n_train, "neighbors": neighbors}
        super().__init__(plan_keys(data, protocol, cells, seeds), results)
        self._rows, self._n_jobs = Rows(data, n_queries, n_train), n_jobs

    def measure(self, key: Record) -> Record:
        """Mean and spread of the error over bits, and the share of positive pairs."""
        self._rows.load(key["seed"])
        X = self._rows.training
        if key["method"] == ORIGINAL:
            method = METHODS["bpb"](n_bits=1, random_state=key["seed"], n_jobs=self._n_jobs)
        else:
            method = build_method(key, self._n_jobs)
        with self._rows.memo.use():
            bits = unpack(method.fit(X).transform(X), method.n_bits_)
            n_neighbors, n_threads = key["protocol"]["neighbors"], thread_count(self._n_jobs)
            graph = neighbor_graph(X, n_neighbors, column_statistics(X)[0], n_threads=n_threads)
        errors = pair_errors(bits, graph)
        return {
            "bits": int(method.n_bits_),
            "pair_error": float(errors.mean()),
            "spread_over_bits": float(errors.std()),
            "least": float(errors.min()),
            "positive_share": graph.nnz / len(X) ** 2,
        }

    def headline(self, record: Record) -> str:
        """Mean error."""
        return f"pair error {record['pair_error']:.4f}"

    def close(self) -> None:
        """Let go of the training vectors."""
        self._rows.forget()
