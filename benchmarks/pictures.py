"""Pictures straight to codes in earnest: a folder of many pictures to a searchable index, and what others make of it.

The whole way is gone with the commands: learn codebook (VLAD of 32,000 numbers) and bank from a sample, code every
picture, build the index, search. Then some pictures are described once more, kept as floats, and searched for by the
floats themselves, by the codes, and by what else people do: PCA to 512 floats and FAISS, the same by IncrementalPCA,
product quantisation, RaBitQ after the principal components. Labels are the names of the pictures' folders.

    python -m benchmarks.pictures FOLDER --work FOLDER [--subset 10000] [--parts way subset]

What is measured replaces that part in the file of results; the other part stays.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA, IncrementalPCA

from benchmarks.common import RESULTS, run, write_result
from projbank import HammingIndex, load
from projbank.evaluate.results import stamp
from projbank.features.listing import open_listing
from projbank.features.straight import vectors_of
from projbank.methods import METHODS
from projbank.methods.nearest import nearest_vectors, search
from projbank.metrics import precision_at_k

CENTRES, NUMBERS, BITS, SAMPLE, QUERIES, COMPONENTS, AT = 500, 32_000, 500, 5000, 1000, 512, (10, 50)


def labels_of(names: list[str]) -> NDArray[np.int64]:
    """Class of each file: the folder that it stands in, unless that is called images."""
    folders = [[part for part in name.split("/")[:-1] if part != "images"][-1] for name in names]
    return np.unique(folders, return_inverse=True)[1]


def precisions(ids: NDArray[np.int64], gallery: NDArray[np.int64], queries: NDArray[np.int64]) -> dict[str, float]:
    return {f"P@{k}": round(float(precision_at_k(ids, gallery, queries, k)), 4) for k in AT}


def learn(folder: Path, bank: Path) -> dict[str, float]:
    """Codebook and bank from a sample, in one file."""
    sizes = ("--kind", "vlad", "--components", CENTRES, "--sample", SAMPLE, "--bits", BITS)
    return run("fit", folder, *sizes, "-o", bank, "--force")


def the_whole_way(folder: Path, work: Path) -> dict[str, Any]:
    """From the folder to answers, by the commands."""
    bank, codes, index = work / "bank.safetensors", work / "codes.npy", work / "codes.pbi"
    result: dict[str, Any] = {"fit": learn(folder, bank)}
    result["encode"] = run("encode", bank, folder, "-o", codes, "--force")
    result["index"] = run("index", codes, "--bits", BITS, "-o", index, "--force")
    names = codes.with_suffix(".files.txt").read_text().splitlines()
    labels, rows = labels_of(names), np.sort(np.random.default_rng(0).choice(len(names), QUERIES, replace=False))
    np.save(work / "queries.npy", np.load(codes)[rows])
    result["search"] = run("search", index, work / "queries.npy", "-k", 51, "--format", "csv", "-o", work / "found.csv")
    ids = np.loadtxt(work / "found.csv", np.int64, delimiter=",", skiprows=1, usecols=2).reshape(QUERIES, -1)
    ids = np.array([row[row != own][:50] for row, own in zip(ids, rows, strict=True)])
    written = (bank, codes, codes.with_suffix(".files.txt"), index)
    return (
        result
        | {
            "pictures": len(names),
            "classes": len(np.unique(labels)),
            "pictures coded per second": round(len(names) / result["encode"]["seconds"], 1),
            "pictures coded per core second": round(len(names) / result["encode"]["core seconds"], 1),
            "MB written beside the pictures": round(sum(path.stat().st_size for path in written) / 1e6, 1),
            "MB of the pictures' vectors": round(len(names) * 4 * NUMBERS / 1e6),
        }
        | precisions(ids, labels, labels[rows])
    )


def peers(folder: Path, work: Path, subset: int, keep: Callable[[dict[str, Any]], None]) -> None:
    """Some pictures as floats, and what ways of making them short find, one after the other, each kept at once."""
    if not (work / "bank.safetensors").exists():
        learn(folder, work / "bank.safetensors")
    coder: Any = load(work / "bank.safetensors")
    listing = open_listing(folder)
    drawn = listing.draw(subset, 1)
    started = time.perf_counter()
    X = vectors_of(listing, coder.describer, drawn)
    assert X.shape[1] == NUMBERS
    if len(X) != len(drawn):
        raise RuntimeError("some pictures of the subset have no descriptors: labels would not fit.")
    print(f"{len(X)} vectors in {time.perf_counter() - started:.0f} s", flush=True)
    labels = labels_of([item.file for item in drawn])
    order = np.random.default_rng(2).permutation(len(X))
    queries, gallery = np.sort(order[:QUERIES]), np.sort(order[QUERIES:])
    Q, G = X[queries], X[gallery]
    results: dict[str, Any] = {}

    def measure(name: str, fit: Callable[[], Any], code: Callable[[Any, Any], Any], find: Callable[..., Any]) -> Any:
        times = [time.perf_counter()]
        model = fit()
        times.append(time.perf_counter())
        coded = code(model, G)
        times.append(time.perf_counter())
        ids = find(model, coded)
        times.append(time.perf_counter())
        found = precisions(ids, labels[gallery], labels[queries])
        spent = dict(zip(("fit s", "code s", "search s"), np.round(np.diff(times), 2).tolist(), strict=True))
        results[name] = {"bytes per picture": coded.nbytes // len(coded), **spent, **found}
        print(name, results[name], flush=True)
        keep({"gallery": len(G), "queries": len(Q), "ways": results})
        return model, coded

    def by_codes(model: Any, codes: Any) -> Any:
        return HammingIndex(codes, n_bits=model.n_bits_).search(model.transform(Q), 50)[1]

    def by_floats(model: Any, rows: Any) -> Any:
        return nearest_vectors(model.transform(Q), rows, 50)[1]

    def transform(model: Any, rows: Any) -> Any:
        return np.asarray(model.transform(rows), np.uint8 if hasattr(model, "n_bits_") else np.float32)

    measure("floats", lambda: None, lambda _, rows: rows, lambda _, rows: nearest_vectors(Q, rows, 50)[1])
    measure("projbank, bank of the whole way", lambda: coder.bank, transform, by_codes)
    measure("projbank, for distances", lambda: METHODS["distances"](BITS, random_state=0).fit(G), transform, by_codes)
    measure("projbank, asymmetric", lambda: coder.bank, transform, lambda model, codes: asymmetric(model, codes, Q))
    pca, short = measure(
        f"PCA-{COMPONENTS} floats + FAISS",
        lambda: PCA(COMPONENTS, svd_solver="randomized", random_state=0).fit(G),
        transform,
        by_floats,
    )
    points = np.asarray(pca.transform(Q), np.float32)
    measure(
        f"IncrementalPCA-{COMPONENTS} floats + FAISS",
        lambda: IncrementalPCA(COMPONENTS, batch_size=1000).fit(G),
        transform,
        by_floats,
    )

    def quantised(name: str, **params: Any) -> None:
        def find(model: Any, codes: Any) -> Any:
            return search(model, points, codes, 50)[1]

        def code(model: Any, rows: Any) -> Any:
            return model.transform(short)

        measure(
            f"{name} after PCA-{COMPONENTS}", lambda: METHODS[name](random_state=0, **params).fit(short), code, find
        )

    quantised("pq", n_bits=BITS // 8 * 8)
    quantised("rabitq", n_bits=COMPONENTS)


def asymmetric(model: Any, codes: Any, Q: Any) -> Any:
    return HammingIndex(codes, n_bits=model.n_bits_).search(model.query_values(Q), 50)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--subset", type=int, default=10_000)
    parser.add_argument("--parts", nargs="*", choices=("way", "subset"), default=["way", "subset"])
    parser.add_argument("--output", type=Path, default=RESULTS / "pictures.json")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    result = json.loads(args.output.read_text()) if args.output.exists() else {}
    result |= {"benchmark": "pictures", "numbers of a vector": NUMBERS, "bits": BITS, "pictures learnt from": SAMPLE}
    if "way" in args.parts:
        result["whole way"] = stamp() | the_whole_way(args.pictures, args.work)
        write_result(args.output, result | stamp())
    if "subset" in args.parts:
        about = stamp()
        peers(
            args.pictures,
            args.work,
            args.subset,
            lambda found: write_result(args.output, result | {"subset": about | found} | about),
        )
    shutil.rmtree(args.work)


if __name__ == "__main__":
    main()
