"""SciFact by fixed-dimensional encodings: codes for distances beside PQ, PCA + PQ and RaBitQ of as many bytes.

    python -m benchmarks.scifact scifact.zip --tokens tokens

Token vectors are those that `examples/text.py` computes. For each seed of the encoding, codes are fitted on all
abstracts, on all scaled to length 1, and on a random half of these, and code all; banks are given the claims as
`queries`. Documents are ranked by inner products; RaBitQ, which estimates distances, is for those of length 1
only, and PCA + PQ for codes of at most 1,024 bytes, a component for each.
Recorded are nDCG@10, the share of MaxSim's first 10 among the first 100 found, and nDCG@10 after re-ranking those by
MaxSim, as means over seeds with their standard errors. Beside them stand the encoder's pooled numbers: the mean of a
text's token vectors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS, write_result
from benchmarks.fidelity import PER_BYTE, PQ_ROUNDS
from projbank import HammingIndex, ProjectionBank
from projbank.bits import pack
from projbank.learn.components import streamed_components
from projbank.learn.run import Memo
from projbank.methods import METHODS
from projbank.metrics import neighbor_recall
from projbank.rows.source import as_rows
from projbank.text import FixedDimensionalEncoding

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from scifact import ndcg, read_scifact, tokens  # type: ignore[import-not-found]

BYTES, SHOWN, COMPONENTS = (1280, 640, 160), 100, 1024
FITTED = {"unit": ", length 1", "half": ", length 1, half", "whole": ""}
"""What codes are fitted on, and added to names: all abstracts of length 1, half of these, or all as they are."""

Floats = NDArray[np.float32]
Found = Iterator[tuple[str, NDArray[np.int64]]]
"""For each way to search its name and the first 100 documents of each query."""


def bank_found(name: str, seen: Floats, documents: Floats, queries: Floats, n_bits: int, **settings: Any) -> Found:
    """Codes of a bank for distances that was fitted on `seen`."""
    bank = ProjectionBank(n_bits, preserve="distances", **settings).fit(seen, queries=queries)
    index, values = HammingIndex(bank.transform(documents)), bank.query_values(queries)
    yield f"{name}, asymmetric", index.search(values, SHOWN)[1]
    yield f"{name}, Hamming", index.search(pack(values > 0), SHOWN)[1]


def by_product(queries: Floats, documents: Floats, k: int = SHOWN) -> NDArray[np.int64]:
    """The k documents with the largest inner products, largest first."""
    return np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :k]


def pq_found(seen: Floats, documents: Floats, queries: Floats, n_bytes: int) -> NDArray[np.int64]:
    """Search of PQ by inner products with what codes stand for."""
    method = METHODS["pq"](8 * n_bytes, max_iter=PQ_ROUNDS).fit(seen)
    return by_product(queries, method.decode(method.transform(documents))[:, : queries.shape[1]], SHOWN)


def all_found(documents: Floats, queries: Floats, seen: Floats) -> Found:
    """Every code at every length, fitted on `seen`."""
    memo, means = Memo(seen), seen.mean(axis=0)
    by_angle = np.allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-3)
    for n_bytes in BYTES:
        with memo.use():
            yield from bank_found(f"distances, {n_bytes} bytes", seen, documents, queries, 8 * n_bytes)
            found = streamed_components(as_rows(seen), min(COMPONENTS, *seen.shape), 2)
        yield f"PQ, {n_bytes} bytes", pq_found(seen, documents, queries, n_bytes)
        directions = found.directions[:, : PER_BYTE * n_bytes]
        if n_bytes <= directions.shape[1]:
            short = (seen - means) @ directions, (documents - means) @ directions
            yield f"PCA + PQ, {n_bytes} bytes", pq_found(*short, queries @ directions, n_bytes)
        if by_angle:
            rabitq = METHODS["rabitq"](8 * n_bytes - 64).fit(seen)
            yield f"RaBitQ, {n_bytes} bytes", rabitq.search_codes(queries, rabitq.transform(documents), SHOWN)[1]


def whole_maxsim(folder: Path, queries: Any, documents: Any) -> Floats:
    """MaxSim of every query with every document; kept beside the token vectors."""
    path, shape = folder / "maxsim.npy", (len(queries[1]) - 1, len(documents[1]) - 1)
    if path.exists() and np.load(path, mmap_mode="r").shape == shape:
        return np.asarray(np.load(path))
    asked, whole = np.asarray(queries[0], np.float32), np.empty(shape, np.float32)
    for i, (start, stop) in enumerate(pairwise(documents[1])):
        nearest = (asked @ documents[0][start:stop].astype(np.float32).T).max(axis=1)
        whole[:, i] = np.add.reduceat(nearest, queries[1][:-1])
    np.save(path, whole)
    return whole


def pooled(bags: Any) -> Floats:
    """Mean token vector of each text, of length 1."""
    stacked, offsets = bags
    means = np.stack([stacked[a:b].astype(np.float32).mean(axis=0) for a, b in pairwise(offsets)])
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure SciFact by codes of fixed-dimensional encodings.")
    parser.add_argument("scifact", type=Path, help="scifact.zip")
    parser.add_argument("--tokens", type=Path, required=True, help="folder of the token vectors")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fitted", default=",".join(FITTED), help="comma-separated: " + ", ".join(FITTED))
    parser.add_argument("--output", type=Path, default=RESULTS / "scifact.json")
    given = parser.parse_args()
    texts, claims, relevant = read_scifact(given.scifact)
    bags = [tokens(given.tokens, *one, None) for one in (("claims", claims), ("documents", texts))]
    maxsim = whole_maxsim(given.tokens, *bags)
    exact = np.argsort(-maxsim, axis=1, kind="stable")
    rows: dict[str, list[tuple[float, float, float]]] = {
        "MaxSim": [(ndcg(exact, relevant), 1.0, ndcg(exact, relevant))]
    }

    def judge(name: str, ids: NDArray[np.int64]) -> None:
        again = np.take_along_axis(ids, np.argsort(-np.take_along_axis(maxsim, ids, 1), axis=1, kind="stable"), 1)
        row = ndcg(ids, relevant), neighbor_recall(ids, exact[:, :10]), ndcg(again, relevant)
        rows.setdefault(name, []).append(row)
        print(name, *(f"{value:.3f}" for value in row), flush=True)
        found = {name: summary(np.array(values)) for name, values in rows.items()}
        write_result(given.output, {"documents": len(texts), "queries": len(claims), "found": found})

    short = [pooled(one) for one in bags]
    judge("pooled, floats, 1536 bytes", by_product(short[0], short[1]))
    for name, ids in bank_found("pooled, distances, 160 bytes", short[1], short[1], short[0], 1280):
        judge(name, ids)
    for seed in range(given.seeds):
        encoding = FixedDimensionalEncoding(random_state=seed).fit(bags[1])
        queries, documents = encoding.transform_queries(bags[0]), encoding.transform(bags[1])
        unit = documents / np.linalg.norm(documents, axis=1, keepdims=True)
        half = unit[np.sort(np.random.default_rng(seed).permutation(len(unit))[: len(unit) // 2])]
        judge("floats, 40960 bytes", by_product(queries, documents))
        judge("floats, 40960 bytes, length 1", by_product(queries, unit))
        fitted = {"whole": (documents, documents), "unit": (unit, unit), "half": (unit, half)}
        for name in given.fitted.split(","):
            for way, ids in all_found(fitted[name][0], queries, fitted[name][1]):
                judge(way + FITTED[name], ids)


def summary(values: NDArray[np.float64]) -> dict[str, Any]:
    """Means over seeds, and their standard errors."""
    spread = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(3)
    names = ("nDCG@10", "MaxSim's 10 in 100", "nDCG@10 re-ranked")
    pairs = zip(names, values.mean(axis=0), spread, strict=True)
    return {"seeds": len(values)} | {name: [round(float(a), 4), round(float(b), 4)] for name, a, b in pairs}


if __name__ == "__main__":
    main()
