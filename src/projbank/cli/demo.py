"""`projbank demo`: fit, code and search real data that comes with the dependencies, and say what was lost."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from projbank.cli.bank import Jobs, verbosity


def demo(
    bits: Annotated[int, typer.Option("--bits", "-b", help="Bits per code.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed of the split and of learning.")] = 0,
    jobs: Jobs = None,
) -> None:
    """Turn images of digits into long vectors, learn a bank, search codes, and compare with the original vectors."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table
    from sklearn.neighbors import NearestNeighbors

    from projbank import HammingIndex, ProjectionBank
    from projbank.metrics import precision_at_k

    vectors, labels = digit_products()
    order = np.random.default_rng(seed).permutation(len(labels))
    queries, gallery = order[:300], order[300:]
    print(
        f"{len(gallery)} images of digits as gallery, {len(queries)} as queries: {vectors.shape[1]} products of pixels"
    )

    table = Table("method", "bytes per vector", "precision@50", "training s", "coding us", "search us per query")

    def add(name: str, size: float, ids: Any, training: float, coding: float, search: float) -> None:
        score = precision_at_k(ids, labels[gallery], labels[queries], 50)
        table.add_row(name, f"{size:g}", f"{score:.3f}", f"{training:.1f}", f"{coding:.1f}", f"{search:.0f}")

    exact = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(vectors[gallery])
    ids, seconds = _timed(lambda: exact.kneighbors(vectors[queries], return_distance=False))
    add("original floats", 4 * vectors.shape[1], ids, 0, 0, 1e6 * seconds / len(queries))
    for name, solver in (("BPB (the paper's bank)", "paper"), ("joint bank", "joint")):
        bank = ProjectionBank(bits, solver=solver, random_state=seed, n_jobs=jobs, verbose=verbosity(False, 0))
        bank, training = _timed(lambda bank=bank: bank.fit(vectors[gallery]))
        bank.transform(vectors[:8])  # the first call compiles
        codes, coding = _timed(lambda bank=bank: bank.transform(vectors))
        index = HammingIndex(codes[gallery])
        index.search(codes[queries[:1]], k=50)
        (_, ids), search = _timed(lambda index=index, codes=codes: index.search(codes[queries], k=50))
        add(name, bits / 8, ids, training, 1e6 * coding / len(codes), 1e6 * search / len(queries))
    Console().print(table)


def digit_products() -> tuple[Any, Any]:
    """Scikit-learn's digits as vectors of 2,080 numbers: roots of the products of all pairs of pixels, unit length."""
    import numpy as np
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    first, second = np.triu_indices(images.shape[1])
    products = np.sqrt(images[:, first] * images[:, second]).astype(np.float32)
    return products / np.linalg.norm(products, axis=1, keepdims=True), labels


def _timed(work: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
