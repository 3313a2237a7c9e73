"""What each part of the joint learner is worth: one thing changed at a time, judged by retrieval.

    python -m benchmarks.joint_ablation --vectors vlad.npy --labels vlad.labels.npy --ratio 32

Splits are drawn with a seed that the tables of docs/how-it-works.md do not use.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex, ProjectionBank
from projbank.evaluate.data import DataSet, draw_split, split_sizes
from projbank.learn import target
from projbank.metrics import precision_at_k
from projbank.rows.files import open_vectors

SEED = 100

Patches = dict[str, Any]


def altered_loss(
    *, sharpness: float = 1.0, straight_through: bool = False, balance: float = 1.0, decorrelate: float = 0.0
) -> Callable[..., Any]:
    """`joint.code_loss` with a sharper tanh, true bits forward, another weight of balance, or decorrelated bits."""

    def code_loss(F: Any, wanted: Any, n_threads: int = 1, *, noise: Any = 0) -> tuple[float, Any]:
        n, d = F.shape
        spreads = F.std(axis=0)
        steep = np.where(spreads > 0, np.float32(sharpness) / np.where(spreads > 0, spreads, 1), np.float32(0))
        relaxed = np.tanh(F * steep + noise)
        H = np.where(relaxed > 0, np.float32(1), np.float32(-1)) if straight_through else relaxed
        S, spread = target.center_pairs(target.symmetric_product(H, n_threads) / np.float32(d))
        spread = max(spread, 1e-12)
        n_pairs = n * (n - 1)
        correlation = np.einsum("ij,ij->", S, wanted, dtype=np.float64) / (n_pairs * spread)
        means = H.mean(axis=0, dtype=np.float64)
        pull = (S * np.float32(correlation / spread) - wanted) * np.float32(1 / (n_pairs * spread))
        slopes = target.product(pull, H, n_threads) * np.float32(2 / d)
        slopes += (balance * means * (2 / (n * d))).astype(np.float32)
        if decorrelate:  # mean squared covariance of two bits, in units of its value for equal bits
            covariances = (H.T @ H) / np.float32(n)
            np.fill_diagonal(covariances, 0)
            slopes += (H @ covariances) * np.float32(4 * decorrelate / (n * d))
        slopes *= (1 - relaxed * relaxed) * steep
        return float(1 - correlation + balance * np.mean(means**2)), slopes

    return code_loss


def better_rank_walk(ids: Any) -> Any:
    """`target.graded_walk` where an edge weighs what the better of its two ranks gives, not their mean."""
    n_rows, k = ids.shape
    weights = np.tile(np.exp(-target._DECAY * np.arange(k) / k).astype(np.float32), n_rows)
    graph = sp.csr_array((weights, ids.ravel(), np.arange(0, ids.size + 1, k)), shape=(n_rows, n_rows))
    graph = graph.maximum(graph.T) + sp.eye_array(n_rows, dtype=np.float32)
    roots = sp.diags_array(1 / np.sqrt(graph.sum(axis=1)))
    return sp.csr_array(roots @ graph @ roots, dtype=np.float32)


def interleaved(deviations: Any, n_bits: int) -> Any:
    """Dimensions by deviation, dealt to all groups in turn: every group has some of each size."""
    labels = np.empty(len(deviations), np.int32)
    rng = np.random.default_rng(SEED)
    order = np.argsort(-deviations, kind="stable")
    for start in range(0, len(order), n_bits):
        part = order[start : start + n_bits]
        labels[part] = rng.permutation(n_bits)[: len(part)]
    return labels


def balanced_kmeans(labels: Any, n_bits: int) -> Any:
    """Groups of equal size along the order of the k-means groups."""
    order = np.argsort(labels, kind="stable")
    equal = np.empty(len(labels), np.int32)
    equal[order] = np.arange(len(labels)) * n_bits // len(labels)
    return equal


def variants(deviations: Any, n_bits: int) -> Iterator[tuple[str, dict[str, Any], Patches]]:
    """Name, parameters of the bank, and what is patched."""
    former = {
        "target._COSINE_SHARE": np.float32(0.25),
        "target._DECAY": 4.0,
        "target.graded_walk": better_rank_walk,
        "joint._PATIENCE": 6,
    }
    yield "as it is", {}, {}
    yield "nothing learnt (random signs)", {"solver": "random"}, {}
    yield "moving: none", {}, {"moving._LAST": (0.0, 0.0)}
    yield "moving: 5 % of the weights at a time", {}, {"moving._SHARE": (0.05, 0.05)}
    yield "moving: 10 % of the weights at a time", {}, {"moving._SHARE": (0.1, 0.1)}
    yield "moving: for 1/7 of the iterations", {}, {"moving._LAST": (1 / 7, 1 / 7)}
    yield "moving: judged by 512 vectors", {}, {"moving._SURVEY": (512, 512)}
    yield "grouping: one learnt group per dimension", {"grouping": "learnt"}, {}
    yield "grouping: learnt, the best of all bits", {}, {"groups._CANDIDATES": (n_bits, n_bits)}
    yield "grouping: learnt, the best of 16 random bits", {}, {"groups._CANDIDATES": (16, 16)}
    yield "grouping: soft, 2 learnt groups per dimension", {"grouping": "soft", "n_assign": 2}, {}
    yield "grouping: random", {"grouping": "random"}, {}
    yield "grouping: random, former target and patience", {"grouping": "random"}, former
    yield "grouping: interleaved by deviation", {"grouping": interleaved(deviations, n_bits)}, {}
    yield "grouping: k-means", {"grouping": "kmeans"}, {}
    yield "grouping: k-means, equal sizes", {"grouping": "balanced"}, {}
    yield "grouping: contiguous", {"grouping": "contiguous"}, {}
    yield "target: cosine only", {}, {"target._COSINE_SHARE": np.float32(1)}
    yield "target: half cosine, half diffusion", {}, {"target._COSINE_SHARE": np.float32(0.5)}
    yield "target: diffusion only", {}, {"target._COSINE_SHARE": np.float32(0)}
    yield "target: the better of two ranks", {}, {"target.graded_walk": better_rank_walk}
    yield "target: about 25 neighbours (decay 4)", {}, {"target._DECAY": 4.0}
    yield "target: about 10 neighbours (decay 10)", {}, {"target._DECAY": 10.0}
    yield "target: neighbours weigh alike", {}, {"target._DECAY": 0.0}
    yield "target: 30 neighbours that weigh alike", {"n_neighbors": 30}, {"target._DECAY": 0.0}
    yield "target: vectors folded to half their length", {}, {"target.DIMENSIONS": len(deviations) // 2}
    yield "target: vectors folded to a quarter", {}, {"target.DIMENSIONS": len(deviations) // 4}
    yield "objective: no balance", {}, {"joint.code_loss": altered_loss(balance=0)}
    yield "objective: no noise", {"noise": 0.0}, {}
    yield "objective: no noise, half the step (as before noise)", {"noise": 0.0}, {"joint._RATES": (0.03, 0.01)}
    yield "objective: noise of deviation .2", {"noise": 0.2}, {}
    yield "objective: noise of deviation 1", {"noise": 1.0}, {}
    yield "objective: tanh three times as steep", {}, {"joint.code_loss": altered_loss(sharpness=3)}
    yield "objective: straight-through bits", {}, {"joint.code_loss": altered_loss(straight_through=True)}
    yield "objective: bits decorrelated", {}, {"joint.code_loss": altered_loss(decorrelate=1)}
    yield "course: batches without neighbours", {}, {"batches._NEIGHBORS": 0}
    yield "course: batches with 7 neighbours of each", {}, {"batches._NEIGHBORS": 7}
    yield "course: batches of 256", {}, {"joint._BATCH": (256, 256)}
    yield "course: batches of 1,024", {}, {"joint._BATCH": (1024, 1024)}
    yield "course: twice the iterations", {"max_iter": 140}, {"joint._PATIENCE": 20}
    yield "all dimensions standardised", {"standardize": True}, {}


@contextlib.contextmanager
def patched(patches: Patches) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in patches.items():
            stack.enter_context(mock.patch(f"projbank.learn.{name}", value))
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--ratio", type=int, default=32, help="dimensions per bit")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--only", default="", help="variants whose name has one of these words, with commas between")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    labels = np.load(options.labels)
    data = DataSet(options.vectors.stem, open_vectors(options.vectors), labels)
    output = options.output or RESULTS / f"joint_ablation_{data.name}.json"
    n_rows, n_features = data.vectors.shape
    split = draw_split(n_rows, *split_sizes(n_rows, options.queries), SEED)
    queries, gallery, training = (data.vectors[ids] for ids in split)
    n_bits = n_features // options.ratio
    rows = json.loads(output.read_text())["rows"] if output.exists() else []

    def precision(ids: Any) -> float:
        return round(precision_at_k(ids, labels[split.gallery], labels[split.queries], options.k), 4)

    for name, params, patches in variants(training.std(axis=0), n_bits):
        known = [row for row in rows if row["variant"] == name and row["bits"] == n_bits]
        if known or not any(word in name for word in options.only.split(",")):
            continue
        if isinstance(params.get("grouping"), str) and params["grouping"] == "balanced":
            kmeans = ProjectionBank(n_bits, solver="random", grouping="kmeans").fit(training)
            params = {"grouping": balanced_kmeans(kmeans.labels_, n_bits)}
        start = time.perf_counter()
        with patched(patches):
            bank = ProjectionBank(n_bits, **params).fit(training)
        seconds = time.perf_counter() - start
        index = HammingIndex(bank.transform(gallery), n_bits=n_bits)
        row = {
            "variant": name,
            "bits": n_bits,
            "hamming": precision(index.search(bank.transform(queries), k=options.k)[1]),
            "asymmetric": precision(index.search(bank.query_values(queries), k=options.k)[1]),
            "iterations": bank.n_iter_,
            "groups per dimension": 1 if bank.labels_.ndim == 1 else len(bank.labels_),
            "seconds": round(seconds, 1),
        }
        print(row, flush=True)
        rows.append(row)
        protocol = {"data": data.identity, "queries": len(queries), "training": len(training), "k": options.k}
        write_result(output, protocol | {"seed": SEED, "rows": rows})


if __name__ == "__main__":
    main()
