"""How fast is a search that finds 95 or 99 % of the neighbours, next to other libraries, at a million codes?

    python -m benchmarks.search_recall codes.npy --name caltech-512 --methods projbank,faiss-ivf,usearch

`codes.npy` holds packed codes of pictures (`projbank encode`). A tenth of them, at most 500, are queries that no index
sees. The others are copied until they are `--number`, each bit of a copy flipped with probability 1/16. Recall is the
part of the true 10 nearest that is found. Times are CPU seconds of one thread, all queries in one batch, best of three;
builds use two threads. Results of several runs are collected in one file, from which `benchmarks.search_plot` draws.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS
from projbank.evaluate.results import stamp
from projbank.search.coarse import SEED, draw_players, measure_reach, nearest_coarse, organised
from projbank.search.scan import NewCodes, Part, nearest

MOST_QUERIES, K, TURNS, THREADS = 500, 10, 3, 2
Codes = NDArray[np.uint8]
Search = Callable[[Codes], Any]
Settings = Iterator[tuple[str, Search]]
"""For each setting of an index, its name and a search that returns ids, (n_queries, K)."""


def gallery(pictures: Codes, n_codes: int, seed: int = 0) -> tuple[Codes, Codes]:
    """Codes of pictures that no index sees, as queries; the other pictures with noisy copies of them."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pictures))
    n_queries = min(MOST_QUERIES, len(pictures) // 10)
    queries, seen = pictures[order[:n_queries]], pictures[order[n_queries:]]
    codes = np.empty((n_codes, pictures.shape[1]), np.uint8)
    codes[: len(seen)] = seen[:n_codes]
    for start in range(len(seen), n_codes, 20_000):
        stop = min(start + 20_000, n_codes)
        noise = np.bitwise_and.reduce(rng.integers(0, 256, (4, stop - start, codes.shape[1]), dtype=np.uint8))
        codes[start:stop] = seen[np.arange(start, stop) % len(seen)] ^ noise
    return codes, queries


def projbank_lists(codes: Codes) -> Settings:
    n_bits = 8 * codes.shape[1]
    block = organised(NewCodes(codes, np.arange(len(codes))), n_bits, 0.99, THREADS)
    assert block.lists is not None
    yield "recall=0.99", lambda queries: nearest_coarse([block], queries, K, 1)[1]
    players, labels = draw_players(codes, SEED, THREADS), block.lists.labels(block.part.ids)
    for recall in (0.8, 0.9, 0.95, 0.98, 0.995):
        block.lists.reaches = measure_reach(codes, block.lists, labels, players, recall)
        yield f"recall={recall}", lambda queries: nearest_coarse([block], queries, K, 1)[1]


def faiss_ivf(codes: Codes) -> Settings:
    n_bits = 8 * codes.shape[1]
    coarse = faiss.IndexBinaryFlat(n_bits)
    index = faiss.IndexBinaryIVF(coarse, n_bits, 2 * math.isqrt(len(codes)))
    rows = np.sort(np.random.default_rng(0).choice(len(codes), min(60_000, len(codes)), replace=False))
    index.train(np.ascontiguousarray(codes[rows]))
    index.add(codes)
    for n_probe in (1, 2, 4, 8, 16, 32, 64, 128, 256):

        def search(queries: Codes, n_probe: int = n_probe) -> Any:
            index.nprobe = n_probe
            return index.search(queries, K)[1]

        yield f"nprobe={n_probe}", search


def faiss_hnsw(codes: Codes) -> Settings:
    index = faiss.IndexBinaryHNSW(8 * codes.shape[1], 16)
    index.hnsw.efConstruction = 80
    index.add(codes)
    yield from _breadths(index, lambda value: setattr(index.hnsw, "efSearch", value))


def faiss_hash(codes: Codes) -> Settings:
    index = faiss.IndexBinaryHash(8 * codes.shape[1], 18)
    index.add(codes)
    for n_flip in (0, 1, 2, 3, 4):

        def search(queries: Codes, n_flip: int = n_flip) -> Any:
            index.nflip = n_flip
            return index.search(queries, K)[1]

        yield f"nflip={n_flip}", search


def usearch(codes: Codes) -> Settings:
    from usearch.index import Index

    index = Index(ndim=8 * codes.shape[1], metric="hamming", dtype="b1", connectivity=16, expansion_add=80)
    index.add(np.arange(len(codes)), codes, threads=THREADS)
    for expansion in (10, 20, 40, 80, 160, 320, 640):

        def search(queries: Codes, expansion: int = expansion) -> Any:
            setattr(index, "expansion_search", expansion)  # noqa: B010 - the stubs call it read-only
            return index.search(queries, K, threads=1).keys.astype(np.int64)

        yield f"expansion={expansion}", search


def hnswlib_floats(codes: Codes) -> Settings:
    """Hnswlib knows floats only: bits as -1 and +1, whose squared distance is four times the Hamming distance."""
    import hnswlib

    index = hnswlib.Index(space="l2", dim=8 * codes.shape[1])
    index.init_index(max_elements=len(codes), M=16, ef_construction=80)
    for start in range(0, len(codes), 20_000):
        index.add_items(_floats(codes[start : start + 20_000]), num_threads=THREADS)
    for breadth in (10, 20, 40, 80, 160, 320, 640):

        def search(queries: Codes, breadth: int = breadth) -> Any:
            index.set_ef(breadth)
            return index.knn_query(_floats(queries), k=K, num_threads=1)[0].astype(np.int64)

        yield f"ef={breadth}", search


METHODS: dict[str, Callable[[Codes], Settings]] = {
    "projbank": projbank_lists,
    "faiss-ivf": faiss_ivf,
    "faiss-hnsw": faiss_hnsw,
    "faiss-hash": faiss_hash,
    "usearch": usearch,
    "hnswlib": hnswlib_floats,
}


def _breadths(index: Any, widen: Callable[[int], None]) -> Settings:
    for breadth in (10, 20, 40, 80, 160, 320, 640):

        def search(queries: Codes, breadth: int = breadth) -> Any:
            widen(breadth)
            return index.search(queries, K)[1]

        yield f"efSearch={breadth}", search


def _floats(codes: Codes) -> NDArray[np.float32]:
    return np.unpackbits(codes, axis=1, bitorder="little").astype(np.float32) * 2 - 1


def cpu_seconds(search: Callable[[], object]) -> float:
    times = []
    for _ in range(TURNS):
        start = time.process_time()
        search()
        times.append(time.process_time() - start)
    return min(times)


def measure(method: str, codes: Codes, queries: Codes, truth: NDArray[np.int64]) -> dict[str, Any]:
    """One method: what its build takes, and a point of its curve per setting."""
    part, some = Part(codes, np.arange(len(codes))), queries[:50]
    exact = cpu_seconds(lambda: nearest([part], some, K, 1)) / len(some)
    gc.collect()
    before, wall, cpu = _resident(), time.perf_counter(), time.process_time()
    faiss.omp_set_num_threads(THREADS)
    points, built = [], None
    for setting, search in METHODS[method](codes):
        if built is None:
            built = {
                "wall seconds": round(time.perf_counter() - wall, 1),
                "cpu seconds": round(time.process_time() - cpu, 1),
                "megabytes": round((_resident() - before) / 2**20),
            }
            faiss.omp_set_num_threads(1)
        recall = float(np.mean([np.isin(a, b).mean() for a, b in zip(truth, search(queries), strict=True)]))
        time_of_one = cpu_seconds(lambda search=search: search(queries)) / len(queries)  # type: ignore[misc]
        single = cpu_seconds(lambda search=search: [search(queries[i : i + 1]) for i in range(20)]) / 20  # type: ignore[misc]
        points.append(
            {
                "setting": setting,
                "recall": round(recall, 4),
                "ms": round(1e3 * time_of_one, 4),
                "ms, single query": round(1e3 * single, 4),
                "times faster than the exact scan": round(exact / time_of_one, 2),
            }
        )
        print(method, points[-1], flush=True)
    return {"build": built, "exact scan [ms]": round(1e3 * exact, 4), "points": points}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure speed against recall at a million codes.")
    parser.add_argument("codes", type=Path, help="packed codes of pictures, .npy")
    parser.add_argument("--name", required=True, help="name of the result: search_recall_NAME.json")
    parser.add_argument("--number", type=int, default=1_000_000, help="how many codes to search")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated; others keep their results")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    pictures = np.load(arguments.codes)
    codes, queries = gallery(pictures, arguments.number)
    path = arguments.folder / f"search_recall_{arguments.name}.json"
    truth = nearest([Part(codes, np.arange(len(codes)))], queries, K, THREADS)[1]
    for method in arguments.methods.split(","):
        result = stamp() | measure(method, codes, queries, truth)
        whole = json.loads(path.read_text()) if path.exists() else {"methods": {}}
        whole["methods"][method] = result
        facts = {
            "bits": 8 * codes.shape[1],
            "codes": len(codes),
            "pictures": len(pictures),
            "queries": len(queries),
            "k": K,
        }
        path.write_text(json.dumps(facts | {"methods": whole["methods"]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
