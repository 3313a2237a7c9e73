"""Neighbour graphs of single cells: codes of all genes beside scanpy's 50 principal components and pynndescent.

For every data set, in one run: does the graph agree with the known cell types (share of each cell's neighbours that are
of its type; adjusted Rand index of Leiden's clusters), in how many seconds, with how much memory? Each way runs in a
process of its own, so that its peak memory is its own.

Generated cells follow the splatter model (Zappia et al. 2017): gamma means per gene, log-normal factors of the genes
that differ between types, log-normal library sizes, biological variation falling with the mean, Poisson counts; about
as many counts per cell as in the atlas of Cao et al. (2019). They are no real cells: their figures tell time and
memory, and agreement only in comparison.

    python -m benchmarks.cells --real worm_neuron_scrna.npz --cells 10000 100000 1000000

What is measured replaces the figures of the same set in the file of results; those of other sets stay.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

from benchmarks.common import RESULTS, write_result
from projbank.evaluate.results import stamp

NEIGHBORS = 15
MOST_FOR_LEIDEN = 100_000
"""Cells up to which Leiden is run: at a million it takes longer than everything else together."""
WAYS = {
    "codes": {"rerank": False},
    "pca50+pynndescent": None,
    "codes, neighbours of all genes": {"rerank": False, "n_components": "all"},
    "codes+vectors": {"rerank": True},
}
MOST_FOR_ALL = 10_000
"""Cells up to which all ways are run, above only the first two."""


@numba.njit(nogil=True)
def draw(shares: Any, types: Any, sizes: Any, rng: Any, values: Any, columns: Any, ends: Any) -> int:
    """Draw the counts of some cells, Poisson with gamma means, by inversion: values that are not 0, and their genes."""
    place = 0
    for i in range(types.size):
        own = shares[types[i]]
        for j in range(own.size):
            mean = own[j] * sizes[i]
            u = rng.random()
            if u < 1 - mean:  # the probability of 0 is not below this
                continue
            variation = 0.1 + 0.2 / np.sqrt(max(mean, 0.05))
            shape = 1 / (variation * variation)
            share = mean / (mean + shape)
            p, count = (1 - share) ** shape, 0
            while u >= p and count < 60_000:
                u -= p
                p *= (shape + count) / (count + 1) * share
                count += 1
            if count:
                values[place], columns[place] = count, j
                place += 1
        ends[i] = place
    return place


def splatter(n_cells: int, folder: Path, *, n_genes: int = 10_000, n_types: int = 20, seed: int = 0) -> Path:
    """Write generated counts as the parts of a csr matrix, with the types."""
    rng = np.random.default_rng(seed)
    means = rng.gamma(0.6, 1 / 0.3, n_genes) * rng.lognormal(0, 0.5, n_genes)
    factors = np.ones((n_types, n_genes))
    for row in factors:
        differs = rng.random(n_genes) < 0.1
        row[differs] = rng.lognormal(0.5, 0.4, differs.sum()) ** rng.choice([-1, 1], differs.sum())
    shares = means * factors
    shares /= shares.sum(axis=1, keepdims=True)
    types = rng.choice(n_types, n_cells, p=rng.dirichlet(np.full(n_types, 2.0)))
    sizes = rng.lognormal(6.5, 0.3, n_cells)
    starts, total = [np.zeros(1, np.int64)], 0
    values, columns, ends = np.empty(2048 * n_genes, np.uint16), np.empty(2048 * n_genes, np.int32), np.empty(2048, int)
    with open(folder / "data.u2", "wb") as data, open(folder / "indices.i4", "wb") as indices:
        for start in range(0, n_cells, 2048):
            part = slice(start, min(n_cells, start + 2048))
            n = draw(shares, types[part], sizes[part], rng, values, columns, ends)
            values[:n].tofile(data)
            columns[:n].tofile(indices)
            starts.append(total + ends[: part.stop - start])
            total += n
    np.save(folder / "indptr.npy", np.concatenate(starts))
    np.save(folder / "shape.npy", (n_cells, n_genes))
    np.save(folder / "types.npy", types)
    return folder


def real_counts(path: Path, folder: Path) -> Path:
    """Bring a `.npz` of data, indices, indptr, shape and label into the form of the generated sets."""
    z = np.load(path)
    z["data"].astype(np.uint16).tofile(folder / "data.u2")
    z["indices"].astype(np.int32).tofile(folder / "indices.i4")
    np.save(folder / "indptr.npy", z["indptr"])
    np.save(folder / "shape.npy", z["shape"])
    np.save(folder / "types.npy", z["label"])
    return folder


def counts_of(folder: Path) -> sp.csr_matrix:
    data = np.fromfile(folder / "data.u2", np.uint16).astype(np.float32)
    starts = np.load(folder / "indptr.npy")
    starts = starts.astype(np.int32) if starts[-1] < 2**31 else starts
    return sp.csr_matrix(
        (data, np.fromfile(folder / "indices.i4", np.int32), starts), tuple(np.load(folder / "shape.npy"))
    )


def measure(way: str, folder: Path) -> dict[str, Any]:
    """Go from counts to the graph in one way, and compare the graph with the types."""
    import scanpy as sc
    from sklearn.metrics import adjusted_rand_score

    from projbank import HammingNeighbors

    types = np.load(folder / "types.npy")
    adata = sc.AnnData(counts_of(folder))
    before, cores_before = time.perf_counter(), time.process_time()
    sc.pp.normalize_total(adata, target_sum=1e4)
    sc.pp.log1p(adata)
    options = WAYS[way]
    if options is None:
        sc.pp.pca(adata, n_comps=50)
        sc.pp.neighbors(adata, n_neighbors=NEIGHBORS, transformer=as_scanpy_sets_it(adata.n_obs))
    else:
        sc.pp.neighbors(adata, use_rep="X", transformer=HammingNeighbors(NEIGHBORS, **options))
    seconds, core_seconds = time.perf_counter() - before, time.process_time() - cores_before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    graph = adata.obsp["distances"].tocoo()
    known = types[graph.row] >= 0
    agreement = float(np.mean(types[graph.row[known]] == types[graph.col[known]]))
    result = {
        "way": way,
        "seconds": round(seconds, 1),
        "core seconds": round(core_seconds, 1),
        "peak GiB": round(peak, 2),
        "agreement": round(agreement, 4),
    }
    if adata.n_obs <= MOST_FOR_LEIDEN:
        sc.tl.leiden(adata, flavor="igraph", n_iterations=2, random_state=0)
        result["Leiden ARI"] = round(float(adjusted_rand_score(types, adata.obs["leiden"])), 4)
        result["clusters"] = int(adata.obs["leiden"].nunique())
    return result


def as_scanpy_sets_it(n_cells: int) -> Any:
    """The pynndescent transformer with scanpy's settings; its graph as the kind of matrix that scanpy takes."""
    from pynndescent import PyNNDescentTransformer

    class Transformer(PyNNDescentTransformer):
        def fit_transform(self, X: Any, y: Any = None, **options: Any) -> sp.csr_matrix:
            return sp.csr_matrix(super().fit_transform(X, y, **options))

    trees, rounds = min(64, 5 + round(n_cells**0.5 / 20)), max(5, round(np.log2(n_cells)))
    return Transformer(n_neighbors=NEIGHBORS, metric="euclidean", n_trees=trees, n_iters=rounds, random_state=0)


def in_child(way: str, folder: Path, minutes: float) -> dict[str, Any]:
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.cells", "--child", way, str(folder)]
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60 * minutes)
    except subprocess.TimeoutExpired:
        return {"way": way, "failed": f"not ready after {minutes:g} minutes"}
    if found.returncode:
        return {"way": way, "failed": (found.stderr.strip().splitlines() or [str(found.returncode)])[-1][:200]}
    return dict(json.loads(found.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, help=".npz of data, indices, indptr, shape and label")
    parser.add_argument("--cells", type=int, nargs="*", default=[10_000, 100_000, 1_000_000], help="generated sets")
    parser.add_argument("--minutes", type=float, default=20, help="what a way may take")
    parser.add_argument("--output", type=Path, default=RESULTS / "cells.json")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child[0], Path(args.child[1]))))
        return
    sets: list[dict[str, Any]] = json.loads(args.output.read_text())["sets"] if args.output.exists() else []
    for n_cells in ([0] if args.real else []) + args.cells:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            made = splatter(n_cells, folder) if n_cells else real_counts(args.real, folder)
            shape = np.load(made / "shape.npy").tolist()
            name = f"generated (splatter model), {n_cells:,} cells" if n_cells else args.real.stem
            per_cell = round(float(np.load(made / "indptr.npy")[-1]) / shape[0])
            n_types = len(np.unique(np.load(made / "types.npy")))
            about = {"set": name, "shape": shape, "genes found per cell": per_cell, "types": n_types}
            ways: list[dict[str, Any]] = []
            sets = [one for one in sets if one["set"] != name] + [stamp() | about | {"ways": ways}]
            sets.sort(key=lambda one: int(one["shape"][0]))
            for way in list(WAYS)[: None if shape[0] <= MOST_FOR_ALL else 2]:
                ways.append(in_child(way, made, args.minutes))
                print(name, ways[-1], flush=True)
                write_result(args.output, {"benchmark": "cells", "n_neighbors": NEIGHBORS, "sets": sets})


if __name__ == "__main__":
    main()
