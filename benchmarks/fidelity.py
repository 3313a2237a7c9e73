"""How many of the floats' ten nearest neighbours do codes find, next to other codes of as many bytes?

    python -m benchmarks.fidelity caltech_vlad.npy --bits 500,2000,4000

Vectors are split into 1,000 queries, at most a quarter, and a gallery, which every method is fitted on. Recorded is the
share of the ten nearest (Euclidean) among the first 10 and the first 100 found. The second is also what is among the
first 10 after re-ranking the first 100 by the floats, for these put every true neighbour that is there in front.
Hamming search compares bits with bits, asymmetric search floats of the query with codes.

Lengths are D/64, D/16 and D/8 unless given. ITQ, PCA+PQ and OPQ start from the same principal components, at most
1,024, the latter two from 4 for a byte, or as many as these allow. RaBitQ's two floats per code count as bytes. A peer
that would take many minutes is cut short or left out: ITQ has 50 rounds up to 512 bits, 10 above, and is left out above
1,024; PQ has 10 rounds of k-means, OPQ 20 of turning.
Results of several runs are collected in one file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS
from projbank import HammingIndex, ProjectionBank
from projbank.bits import pack
from projbank.evaluate.data import draw_split
from projbank.evaluate.results import stamp
from projbank.learn.components import streamed_components
from projbank.learn.rotation import learn_rotation
from projbank.learn.run import Memo
from projbank.methods import METHODS
from projbank.metrics import neighbor_recall
from projbank.rows.files import open_vectors
from projbank.rows.source import as_rows

MOST_QUERIES, NEAREST, SHOWN = 1000, 10, 100
FEW_BITS, MOST_BITS = 512, 1024
"""ITQ: bits up to which it has all its rounds, and up to which it is measured."""
MOST_COMPONENTS = 1024
PQ_ROUNDS, OPQ_ROUNDS = 10, 20
PER_BYTE = 4
"""Components for a byte of PQ after PCA."""

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


class Task(NamedTuple):
    """Rows to be found by queries, and true neighbours."""

    gallery: Floats
    queries: Floats
    true: Ids


Found = Iterator[tuple[str, Ids]]
"""For each kind of search its name and what it returns."""


def bits_found(codes: NDArray[np.uint8], values: Floats) -> Found:
    """Search packed codes with the bits of queries, and with their floats."""
    index = HammingIndex(codes, n_bits=values.shape[1])
    yield "hamming", index.search(pack(values > 0), SHOWN)[1]
    yield "asymmetric", index.search(values, SHOWN)[1]


def distances(task: Task, n_bits: int) -> Found:
    bank = ProjectionBank(n_bits, preserve="distances").fit(task.gallery)
    return bits_found(bank.transform(task.gallery), bank.query_values(task.queries))


def lsh(task: Task, n_bits: int) -> Found:
    method = METHODS["lsh"](n_bits).fit(task.gallery)
    return bits_found(method.transform(task.gallery), method.decision_function(task.queries))


def itq(task: Task, n_bits: int) -> Found:
    coordinates, asked = leading(task, n_bits)
    rounds = 50 if n_bits <= FEW_BITS else 10
    rotation, _ = learn_rotation(coordinates, n_bits, rounds, np.random.default_rng(0))
    return bits_found(pack(coordinates @ rotation > 0), asked @ rotation)


def pq(task: Task, n_bits: int) -> Found:
    return pq_found(task.gallery, task.queries, -(-n_bits // 8))


def pca_pq(task: Task, n_bits: int) -> Found:
    n_bytes = -(-n_bits // 8)
    return pq_found(*leading(task, components(n_bytes)), n_bytes)


def components(n_bytes: int) -> int:
    """Principal components for codes of PCA+PQ and OPQ, as many for each byte."""
    return n_bytes * max(1, min(PER_BYTE, MOST_COMPONENTS // n_bytes))


def opq(task: Task, n_bits: int) -> Found:
    n_bytes = -(-n_bits // 8)
    parts = leading(task, components(n_bytes))
    turn = faiss.OPQMatrix(parts[0].shape[1], n_bytes)
    turn.niter = OPQ_ROUNDS
    turn.train(parts[0])
    return pq_found(turn.apply(parts[0]), turn.apply(parts[1]), n_bytes)


def leading(task: Task, n: int) -> tuple[Floats, Floats]:
    """Coordinates of gallery and queries by the leading principal components."""
    found = streamed_components(as_rows(task.gallery), min(MOST_COMPONENTS, *task.gallery.shape), 2)
    directions = found.directions[:, :n]
    offsets = found.means.astype(np.float32) @ directions
    return task.gallery @ directions - offsets, task.queries @ directions - offsets


def pq_found(gallery: Floats, queries: Floats, n_bytes: int) -> Found:
    return adc_found(METHODS["pq"](8 * n_bytes, max_iter=PQ_ROUNDS), gallery, queries)


def rabitq(task: Task, n_bits: int) -> Found:
    return adc_found(METHODS["rabitq"](8 * -(-n_bits // 8) - 64), task.gallery, task.queries)


def adc_found(method: Any, gallery: Floats, queries: Floats) -> Found:
    """Search codes of rows, by the method's own estimate of distances."""
    codes = method.fit(gallery).transform(gallery)
    yield "asymmetric", method.search_codes(queries, codes, SHOWN)[1]


METHODS_COMPARED: dict[str, Callable[[Task, int], Found]] = {
    "distances": distances,
    "LSH": lsh,
    "ITQ": itq,
    "PQ": pq,
    "PCA+PQ": pca_pq,
    "OPQ": opq,
    "RaBitQ": rabitq,
}


def make_task(path: Path) -> Task:
    """Split the vectors, and find the true neighbours."""
    rows = as_rows(open_vectors(path, None))
    n_rows = rows.shape[0]
    split = draw_split(n_rows, min(MOST_QUERIES, n_rows // 4), 2, 0)
    gallery, queries = rows.read(split.gallery), rows.read(split.queries)
    squares = np.einsum("ij,ij->i", gallery, gallery, dtype=np.float64)
    true = np.argsort(squares - 2 * (queries @ gallery.T), axis=1, kind="stable")[:, :NEAREST]
    return Task(gallery, queries, true)


def is_measured(name: str, n_bits: int) -> bool:
    """Whether a method can be had in a few minutes."""
    return name != "ITQ" or n_bits <= MOST_BITS


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how many of the floats' nearest neighbours codes find.")
    parser.add_argument("vectors", type=Path, nargs="+", help=".npy or .npz; a data set is called like its file")
    parser.add_argument("--bits", help="comma-separated; D/64, D/16 and D/8 unless given")
    parser.add_argument("--methods", default=",".join(METHODS_COMPARED), help="comma-separated; others keep results")
    parser.add_argument("--output", type=Path, default=RESULTS / "fidelity.json")
    given = parser.parse_args()
    names = given.methods.split(",")
    for path in given.vectors:
        task = make_task(path)
        memo = Memo(task.gallery)
        width = task.gallery.shape[1]
        lengths = [int(n) for n in given.bits.split(",")] if given.bits else [width // 64, width // 16, width // 8]
        for n_bits in lengths:
            for name in (name for name in names if is_measured(name, n_bits)):
                start, cell = time.perf_counter(), {}
                with memo.use():
                    for kind, ids in METHODS_COMPARED[name](task, n_bits):
                        cell[kind] = [round(neighbor_recall(ids[:, :k], task.true), 4) for k in (NEAREST, SHOWN)]
                print(path.stem, n_bits, name, cell, f"{time.perf_counter() - start:.0f} s", flush=True)
                whole = json.loads(given.output.read_text()) if given.output.exists() else {"sets": {}}
                sizes = {"dimensions": width, "gallery": len(task.gallery), "queries": len(task.queries)}
                one = whole["sets"].setdefault(path.stem, sizes)
                one.setdefault("recall of 10 among the first 10 and 100", {}).setdefault(str(n_bits), {})[name] = cell
                given.output.write_text(json.dumps(whole | stamp(), indent=1) + "\n")


if __name__ == "__main__":
    main()
