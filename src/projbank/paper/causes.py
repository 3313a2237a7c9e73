"""Why the paper's bank finds what it finds: one thing at a time is changed, and precision is measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.evaluate.results import Record
from projbank.evaluate.retrieval import ORIGINAL, Cell, SplitExperiment, build_method
from projbank.learn.grouping import group_dimensions
from projbank.learn.paper import PaperLearner
from projbank.learn.run import Run
from projbank.methods import METHODS
from projbank.methods.nearest import search
from projbank.metrics import precision_at_k
from projbank.models.bank import Bank
from projbank.rows.source import as_rows
from projbank.threads import thread_count

K = 50
GROUPS = ("kmeans", "kmeans-equal", "random")
WEIGHTS = ("gaussian", "ones", "learnt")
AXES = "axes"
"""Name of the bits that see one dimension each."""
VARIED: dict[str, tuple[Any, ...]] = {
    "n_neighbors": (3, 30),
    "lam": (0.1, 100.0),
    "threshold": ("median",),
}
"""What is changed on k-means groups with learnt weights, beside the settings of the table before."""


def cells(bits: Sequence[int], n_train: int, given: Mapping[str, Any]) -> list[Cell]:
    """Floats; groups by weights; what is varied; single dimensions; class labels in the place of neighbours.

    `given`: parameters of the paper's bank in all cells, but for those that are varied.
    """
    found: list[Cell] = [(ORIGINAL, None, {})]
    varied = {"n_train": (n_train // 4, n_train // 2)} | VARIED
    given = {word: value for word, value in given.items() if word not in varied}
    for n in bits:
        changes: list[dict[str, Any]] = [{"grouping": g, "weights": w} for g in GROUPS for w in WEIGHTS]
        changes += [{word: value} for word, values in varied.items() for value in values]
        changes += [{"grouping": groups, "pairs": "classes"} for groups in GROUPS[:2]]
        found += [("lsh", n, {}), (AXES, n, {}), *(("bpb", n, {**given, **change}) for change in changes)]
    return found


@dataclass(frozen=True)
class Coder:
    """A bank as `search` takes a method."""

    bank: Bank
    n_threads: int
    distance = "hamming"

    @property
    def n_bits_(self) -> int:
        """Length of a code."""
        return self.bank.n_bits

    def transform(self, X: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Codes of rows."""
        out = np.empty((len(X), -(-self.n_bits_ // 8)), np.uint8)
        self.bank.write(as_rows(X), out, n_threads=self.n_threads)
        return out


class Causes(SplitExperiment):
    """Precision after 50 results of banks of which one thing is not the paper's; see `cells`."""

    name, headline = "causes", "precision"
    max_training = 2000

    def measure(self, key: Record) -> Record:
        """Precision, by the number of results."""
        self.load(key["seed"])
        labels, k = np.asarray(self.data.labels), min(K, len(self.split.gallery))
        if key["method"] == ORIGINAL:
            ids = self.rank_floats(k)
        else:
            with self.memo.use():
                coder = self._coder(key)
            ids = search(coder, self.queries, self.code_gallery(coder)[0], k, n_jobs=self.n_jobs)[1]
        found = precision_at_k(ids, labels[self.split.gallery], labels[self.split.queries], k)
        return {"precision": {str(k): found}}

    def _coder(self, key: Record) -> Any:
        params, rng = dict(key["params"]), np.random.default_rng(key["seed"])
        X, n_bits, n_features = self.training, key["n_bits"], self.training.shape[1]
        if key["method"] == AXES:
            return self._bank(axes(n_features, n_bits, rng), X)
        gaussian = params.get("weights") == "gaussian"
        if params.get("weights", "learnt") != "learnt":
            labels = group_dimensions(params["grouping"], as_rows(X), n_bits, rng, n_threads=thread_count(self.n_jobs))
            drawn = rng.standard_normal(n_features) if gaussian else np.ones(n_features)
            return self._bank((labels, np.asarray(drawn)), X)
        if params.pop("pairs", None):
            return self._from_classes(key["seed"], params.pop("grouping"), n_bits, params)
        median = params.pop("threshold", None) == "median"
        n_train = params.pop("n_train", len(X))
        params.pop("weights", None)
        rows = X if n_train >= len(X) else X[np.sort(rng.choice(len(X), n_train, replace=False))]
        method = build_method(key | {"params": params}, self.n_jobs).fit(rows)
        if not median:
            return method
        bank, shifts = method.model_, np.median(method.decision_function(rows), axis=0)
        return Coder(Bank(bank.labels, bank.weights, (bank.biases + shifts).astype(np.float32)), self._threads)

    @property
    def _threads(self) -> int:
        return thread_count(self.n_jobs)

    def _bank(self, parts: tuple[NDArray[np.int32], NDArray[np.floating]], X: NDArray[np.float32]) -> Coder:
        """A bank of given weights whose thresholds are the means of its sums."""
        labels, weights = parts
        biases = np.bincount(labels, np.asarray(weights * X.mean(axis=0, dtype=np.float64)))
        return Coder(Bank(labels, weights.astype(np.float32), biases.astype(np.float32)), self._threads)

    def _from_classes(self, seed: int, grouping: str, n_bits: int, params: Mapping[str, Any]) -> Coder:
        """The paper's bank with pairs of one class as its similar pairs."""
        rows, classes = as_rows(self.training), np.asarray(self.data.labels)[self.split.training]
        labels = group_dimensions(grouping, rows, n_bits, np.random.default_rng(seed), n_threads=self._threads)
        positives = sp.csr_array(classes[:, None] == classes[None])
        learner, run = PaperLearner.of(METHODS["bpb"](**params).get_params()), Run("BPB", seed, self._threads)
        weights, biases, _ = learner.learn_groups(rows, labels, positives, rows.statistics().means, n_bits, run)
        return Coder(Bank(labels, weights, biases), self._threads)


def axes(n_features: int, n_bits: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Groups and weights of bits that see a random dimension each; all other weights are 0."""
    labels = (np.arange(n_features) % n_bits).astype(np.int32)
    order = rng.permutation(n_features)
    weights = np.zeros(n_features)
    weights[order[:n_bits]] = 1.0
    groups = np.empty(n_features, np.int32)
    groups[order] = labels
    return groups, weights
