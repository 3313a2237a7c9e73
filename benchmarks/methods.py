"""What do the methods cost at D = 64,000? The paper's Table 3 for all of them, and next to the libraries' own steps.

    python -m benchmarks.methods

Training is wall time on all cores, from 256 vectors only and with 5 rounds of k-means, so that the whole table takes
minutes. Coding is CPU time of one thread, which other processes disturb less, best of several turns; ratios are the
median of three rounds of that.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import faiss
import numpy as np
import scipy.fft
from threadpoolctl import threadpool_limits

from benchmarks.common import report, result_path, row, seconds, write_result
from projbank.methods import METHODS

DIMENSIONS, TRAINING = 64_000, 256
LENGTHS = (3200, 4000, 6400, 8000)
MANY, FEW = 256, 32
DENSE = ("pca", "rr", "rr+pq", "lsh", "itq", "sph", "pq")
KMEANS_ITER = 5
ROUNDS = 3
SIZES = ((32_000, 2000), (170_400, 8520))


def best_cpu(runs: dict[str, Callable[[], object]], turns: int = 5) -> dict[str, float]:
    """Least CPU seconds of this thread for each run, timed in turns."""
    times = {name: float("inf") for name in runs}
    for run in runs.values():
        run()  # compile, fill caches
    for _ in range(turns):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            times[name] = min(times[name], time.thread_time() - start)
    return times


def fisher_like(n: int, n_features: int, rng: np.random.Generator) -> Any:
    """Unit vectors near a space of 100 dimensions, with signed square roots as Fisher vectors have."""
    X = rng.standard_normal((n, 100), dtype=np.float32) @ rng.standard_normal((100, n_features), dtype=np.float32)
    X += 5 * rng.standard_normal((n, n_features), dtype=np.float32)
    X = np.sign(X) * np.sqrt(np.abs(X))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def fitted(name: str, n_bits: int | None, X: Any, **params: Any) -> tuple[Any, float]:
    """A method fitted on the training vectors, and the seconds that it took."""
    known = METHODS[name]().get_params()
    settings = {"n_bits": n_bits, "kmeans_iter": KMEANS_ITER, **params}
    method = METHODS[name](**{key: value for key, value in settings.items() if key in known and value is not None})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        took = seconds(lambda: method.fit(X[:TRAINING]))
    return method.set_params(n_jobs=1), took


def cost_row(name: str, n_bits: int | None, X: Any) -> dict[str, Any]:
    """One cell of the table."""
    method, training = fitted(name, n_bits, X)
    rows = X[:FEW] if name in DENSE else X[:MANY]
    coding = best_cpu({"transform": lambda: method.transform(rows)}, 2 if name in DENSE else 4)["transform"]
    cell = {
        "method": name,
        "n_bits": n_bits,
        "bits": int(method.n_bits_),
        "code_bytes": method.code_bytes,
        "model_megabytes": round(method.model_bytes / 1e6, 3),
        "training_seconds": round(training, 2),
        "coding_microseconds": round(1e6 * coding / len(rows), 1),
    }
    print(
        f"{name:<12} {n_bits or 'all'!s:>5} bits  model {cell['model_megabytes']:9.3f} MB  "
        f"training {cell['training_seconds']:7.2f} s  coding {cell['coding_microseconds']:9.1f} us",
        flush=True,
    )
    return cell


def multiply(left: Any, matrices: Any, right: Any, right_first: bool) -> Any:
    """BPBC's two matrix products, in either order."""
    if right_first:
        return np.matmul(left.T, np.matmul(matrices, right))
    return np.matmul(np.matmul(left.T, matrices), right)


def peer_ratios(X: Any) -> list[dict[str, Any]]:
    """Coding by our methods against the libraries' own steps, in turns, one thread each."""
    rows = []
    for n_bits in LENGTHS:
        circulant, _ = fitted("cbe-rand", n_bits, X)
        bilinear, _ = fitted("bpbc", n_bits, X, max_iter=1)
        left, right = bilinear.left_, bilinear.right_
        matrices = X.reshape(len(X), len(left), len(right))
        times = best_cpu(
            {
                "cbe": partial(circulant.transform, X),
                "fft": lambda: scipy.fft.irfft(scipy.fft.rfft(X, axis=1), DIMENSIONS, axis=1),
                "bpbc": partial(bilinear.transform, X),
                "right first": partial(multiply, left, matrices, right, right_first=True),
                "left first": partial(multiply, left, matrices, right, right_first=False),
            },
            turns=7,
        )
        products = min(times["right first"], times["left first"])
        rows += [
            row(f"{n_bits} bits: CBE / scipy.fft's two transforms", times["cbe"] / times["fft"], most=1),
            row(f"{n_bits} bits: BPBC / its two matrix products (NumPy)", times["bpbc"] / products, most=1),
        ]
    hadamard, _ = fitted("srht+sign", 8000, X)
    sign, _ = fitted("sign", None, X)
    dense, _ = fitted("lsh", LENGTHS[0], X)
    rotation = faiss.HadamardRotation(DIMENSIONS, 1)
    times = best_cpu(
        {
            "srht": lambda: hadamard.transform(X),
            "faiss": lambda: rotation.apply(X),
            "sign": lambda: sign.transform(X),
            "packbits": lambda: np.packbits(X > 0, axis=1, bitorder="little"),
            "lsh": lambda: dense.transform(X[:FEW]),
            "product": lambda: X[:FEW] @ dense.projection_,
        },
        turns=7,
    )
    return [
        *rows,
        row("SRHT, 8000 bits / faiss.HadamardRotation (three rounds)", times["srht"] / times["faiss"], most=1),
        row("SRHT, 8000 bits / a third of faiss.HadamardRotation", 3 * times["srht"] / times["faiss"], most=1),
        row("sign / np.packbits", times["sign"] / times["packbits"], most=1),
        row(f"LSH, {LENGTHS[0]} bits / its matrix product (NumPy)", times["lsh"] / times["product"], most=1.05),
    ]


def median_rows(rounds: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The median round of each ratio, with all of them beside it."""
    rows = []
    for versions in zip(*rounds, strict=True):
        ordered = sorted(versions, key=lambda one: one["ratio"])
        rows.append({**ordered[len(ordered) // 2], "rounds": [one["ratio"] for one in versions]})
    return rows


def size_row(name: str, n_bits: int | None, X: Any) -> dict[str, Any]:
    """Whether a method fits and codes vectors of another size."""
    method, training = fitted(name, n_bits, X, max_iter=2)
    codes = method.transform(X)
    cell = {
        "method": name,
        "dimensions": X.shape[1],
        "bits": int(method.n_bits_),
        "training_seconds": round(training, 2),
    }
    print(f"{name:<12} {X.shape[1]} dimensions, {cell['bits']} bits: codes {codes.shape}, {training:.1f} s", flush=True)
    return cell


def refusal() -> str:
    """What ITQ says at the paper's largest size, where it can't run."""
    X = np.broadcast_to(np.float32(1), (4000, 170_400))  # takes no memory
    try:
        METHODS["itq"](10_000).fit(X)
    except MemoryError as error:
        return str(error)
    raise RuntimeError("ITQ did not refuse.")


def main() -> None:
    path = result_path("methods")
    rng = np.random.default_rng(0)
    X = fisher_like(MANY, DIMENSIONS, rng)
    start = time.perf_counter()
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        ratios = median_rows([peer_ratios(X) for _ in range(ROUNDS)])
    report(ratios)
    cells = []
    for name, cls in METHODS.items():
        cells += [cost_row(name, n_bits, X) for n_bits in (LENGTHS if cls.free_length else (None,))]
    sizes = []
    for n_features, n_bits in SIZES:
        few = fisher_like(FEW, n_features, rng)
        sizes += [size_row(name, n_bits if cls.free_length else None, few) for name, cls in METHODS.items()]
    message = refusal()
    print(message)
    minutes = (time.perf_counter() - start) / 60
    print(f"{minutes:.1f} minutes")
    facts = {"dimensions": DIMENSIONS, "training vectors": TRAINING, "k-means rounds": KMEANS_ITER}
    write_result(
        path,
        {**facts, "minutes": round(minutes, 1), "ratios": ratios, "costs": cells, "other sizes": sizes, "ITQ": message},
    )


if __name__ == "__main__":
    main()
