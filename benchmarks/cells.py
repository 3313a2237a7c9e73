"""Neighbour graphs of single cells: codes of all genes beside scanpy's 50 principal components and pynndescent.

For every data set, in one run: does the graph agree with the known cell types (share of each cell's neighbours that are
of its type; adjusted Rand index of Leiden's clusters), in how many seconds, with how much memory? Each way runs in a
process of its own, so that its peak memory is its own.

Generated cells follow the splatter model (Zappia et al. 2017): gamma means per gene, log-normal factors of the genes
that differ between types, log-normal library sizes, biological variation falling with the mean, Poisson counts. They
are no real cells: their figures tell time and memory, and agreement only in comparison.

    python -m benchmarks.cells --real worm_neuron_scrna.npz --cells 10000 100000 1000000
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

import numpy as np
import scipy.sparse as sp

from benchmarks.common import RESULTS, write_result

NEIGHBORS = 15
MOST_FOR_LEIDEN = 100_000
"""Cells up to which Leiden is run: at a million it takes longer than everything else together."""
WAYS = ("pca50+pynndescent", "codes", "codes+vectors")


def splatter(n_cells: int, folder: Path, *, n_genes: int = 10_000, n_types: int = 20, seed: int = 0) -> Path:
    """Write generated counts as a csr matrix in three `.npy` files, block by block, with the types."""
    rng = np.random.default_rng(seed)
    means = rng.gamma(0.6, 1 / 0.3, n_genes) * rng.lognormal(0, 0.5, n_genes)
    factors = np.ones((n_types, n_genes))
    for row in factors:
        differs = rng.random(n_genes) < 0.1
        row[differs] = rng.lognormal(0.5, 0.4, differs.sum()) ** rng.choice([-1, 1], differs.sum())
    shares = means * factors
    shares /= shares.sum(axis=1, keepdims=True)
    types = rng.choice(n_types, n_cells, p=rng.dirichlet(np.full(n_types, 2.0)))
    sizes = rng.lognormal(7.3, 0.3, n_cells)
    parts = []
    for start in range(0, n_cells, 4096):
        own = types[start : start + 4096]
        expected = shares[own] * sizes[start : start + 4096, None]
        variation = 0.1 + 1 / np.sqrt(np.maximum(expected, 0.05)) * 0.2
        noisy = expected * rng.gamma(1 / variation**2, variation**2)
        parts.append(sp.csr_matrix(rng.poisson(noisy).astype(np.float32)))
    counts = sp.vstack(parts, format="csr")
    np.savez(folder / "counts.npz", data=counts.data.astype(np.uint16), indices=counts.indices, indptr=counts.indptr)
    np.save(folder / "shape.npy", counts.shape)
    np.save(folder / "types.npy", types)
    return folder


def counts_of(folder: Path) -> sp.csr_matrix:
    z = np.load(folder / "counts.npz")
    shape = tuple(np.load(folder / "shape.npy"))
    return sp.csr_matrix((z["data"].astype(np.float32), z["indices"].astype(np.int32), z["indptr"]), shape=shape)


def real_counts(path: Path, folder: Path) -> Path:
    """Bring a `.npz` of data, indices, indptr, shape and label into the form of the generated sets."""
    z = np.load(path)
    np.savez(folder / "counts.npz", data=z["data"], indices=z["indices"], indptr=z["indptr"])
    np.save(folder / "shape.npy", z["shape"])
    np.save(folder / "types.npy", z["label"])
    return folder


def measure(way: str, folder: Path) -> dict[str, Any]:
    """Go from counts to the graph in one way, and compare the graph with the types."""
    import scanpy as sc
    from sklearn.metrics import adjusted_rand_score

    from projbank import HammingNeighbors, ProjectionBank

    types = np.load(folder / "types.npy")
    adata = sc.AnnData(counts_of(folder))
    before = time.perf_counter()
    sc.pp.normalize_total(adata, target_sum=1e4)
    sc.pp.log1p(adata)
    if way == "pca50+pynndescent":
        sc.pp.pca(adata, n_comps=50)
        sc.pp.neighbors(adata, n_neighbors=NEIGHBORS, transformer=as_scanpy_sets_it(adata.n_obs))
    else:
        bank = ProjectionBank(512, solver="mixed")
        finder = HammingNeighbors(NEIGHBORS, bank=bank, rerank=way == "codes+vectors")
        sc.pp.neighbors(adata, use_rep="X", transformer=finder)
    seconds = time.perf_counter() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    graph = adata.obsp["distances"].tocoo()
    known = types[graph.row] >= 0
    agreement = float(np.mean(types[graph.row[known]] == types[graph.col[known]]))
    result = {"way": way, "seconds": round(seconds, 1), "peak GiB": round(peak, 2), "agreement": round(agreement, 4)}
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


def in_child(way: str, folder: Path) -> dict[str, Any]:
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.cells", "--child", way, str(folder)]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    if found.returncode:
        return {"way": way, "failed": found.stderr.strip().splitlines()[-1][:200]}
    return dict(json.loads(found.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path, help=".npz of data, indices, indptr, shape and label")
    parser.add_argument("--cells", type=int, nargs="*", default=[10_000, 100_000, 1_000_000], help="generated sets")
    parser.add_argument("--output", type=Path, default=RESULTS / "cells.json")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child[0], Path(args.child[1]))))
        return
    sets: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for n_cells in ([0] if args.real else []) + args.cells:
            folder = Path(temporary) / str(n_cells)
            folder.mkdir()
            made = splatter(n_cells, folder) if n_cells else real_counts(args.real, folder)
            shape = np.load(made / "shape.npy").tolist()
            name = f"generated (splatter model), {n_cells:,} cells" if n_cells else args.real.stem
            sets.append({"set": name, "shape": shape, "types": len(np.unique(np.load(made / "types.npy"))), "ways": []})
            for way in WAYS:
                sets[-1]["ways"].append(in_child(way, made))
                print(name, sets[-1]["ways"][-1], flush=True)
            write_result(args.output, {"benchmark": "cells", "n_neighbors": NEIGHBORS, "sets": sets})


if __name__ == "__main__":
    main()
