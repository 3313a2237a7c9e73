"""Parameters as the paper sets them: those that find most among gallery vectors which are held out from learning."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from projbank.evaluate.results import Record, stamp
from projbank.evaluate.retrieval import Cell, Retrieval, build_method
from projbank.evaluate.tuning import MAX_HELD_OUT, retrieval_scorer
from projbank.methods import METHODS

K = 50
LAMBDAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_FACTORS = {"sigma_factor": (1.0, 2.0, 4.0, 8.0), "lam": LAMBDAS}
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "randst+bpb": {"lam": LAMBDAS},
    "bpb": {"lam": LAMBDAS},
    "bpb-equal": {"lam": LAMBDAS},
    "kbpb-poly": {"degree": (1, 2, 3, 4), "lam": LAMBDAS},
    "kbpb-rbf": _FACTORS,
    "kbpb-rbf-equal": _FACTORS,
}
"""Parameters that are chosen, one after the other, and the values that are tried."""


class Tuned(Retrieval):
    """Retrieval with parameters that are chosen for each data set and seed, at the shortest codes of the plan.

    The choice looks at gallery vectors that learning does not see: each is searched for among the others, and the
    share of the first 50 results with its label counts. Queries take no part. Every point that was tried is a record.
    """

    def __init__(self, data: Any, cells: list[Cell], *args: Any, **settings: Any) -> None:
        self._bits = min((n for _, n, _ in cells if n is not None), default=1)
        super().__init__(data, cells, *args, name="tuned", **settings)

    def protocol(self) -> Record:
        """Sizes, and at which length parameters are chosen."""
        return super().protocol() | {"experiment": "tuned", "chosen_at": self._bits}

    def measure(self, key: Record) -> Record:
        """What `Retrieval` measures, and the chosen parameters."""
        self.load(key["seed"])
        chosen = self._choose(key)
        return super().measure(key | {"params": key["params"] | chosen}) | {"chosen": chosen}

    def _choose(self, key: Record) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        for word, values in GRIDS.get(key["method"], {}).items():
            if word not in key["params"]:
                scores = [self._try(key, chosen | {word: value}) for value in values]
                chosen[word] = values[int(np.argmax(scores))]
        return chosen

    def _try(self, key: Record, params: dict[str, Any]) -> float:
        """Precision of a point among held-out vectors, from its record if there is one."""
        held_out = np.setdiff1d(self.split.gallery, self.split.training)[:MAX_HELD_OUT]
        protocol = {"experiment": "held-out", "held_out": len(held_out), "training": self.sizes[1], "k": K}
        defaults = METHODS[key["method"]]().get_params()  # left out, so that no point is tried twice
        changed = {word: value for word, value in params.items() if value != defaults[word]}
        point = key | {"protocol": protocol, "n_bits": self._bits, "params": key["params"] | changed}
        known = self.results.find(point)
        if known is None:
            start = time.perf_counter()
            with self.memo.use():
                method = build_method(point, self.n_jobs).fit(self.training)
            score = retrieval_scorer(K)(method, self.data.take(held_out), np.asarray(self.data.labels)[held_out])
            known = point | {"score": score, "seconds": time.perf_counter() - start} | stamp()
            self.results.put(known)
        return float(known["score"])
