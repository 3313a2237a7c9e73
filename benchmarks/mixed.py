"""What the headed bank finds, beside floats, the joint bank and other methods, at several lengths of code.

    python -m benchmarks.mixed --vectors vlad.npy --labels vlad.labels.npy --methods original mixed joint itq
    python -m benchmarks.mixed --vectors vlad.npy --labels vlad.labels.npy --set n_neighbors=100 --seeds 100

`--set learnt_bits=64 --bits 64` learns a code of 64 bits by itself, to compare with the first 64 bits of a longer one.
Lengths are numbers of bits, or D/64 and the like. What stands in the result file already, of the same vectors by their
fingerprint, is not measured again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex
from projbank.evaluate.data import DataSet, draw_split, split_sizes
from projbank.learn import mixed
from projbank.methods import METHODS, search
from projbank.metrics import precision_at_k
from projbank.rows.files import open_vectors

K = (10, 50)
NESTED = ("mixed",)
"""Methods of which a code of so many bits is the first bits of a longer one: only the longest is fitted."""


def value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def directions(X: Any) -> Any:
    """Rows of length 1: floats are compared by cosine."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float32)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1)


def float_neighbors(gallery: Any, queries: Any) -> Any:
    rows, n = directions(queries), gallery.shape[0]
    parts = [rows @ directions(gallery[start : start + 1000]).T for start in range(0, n, 1000)]
    return np.argsort(-np.hstack(parts), axis=1, kind="stable")[:, : max(K)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["original", "mixed"], choices=["original", *METHODS])
    parser.add_argument("--bits", nargs="+", default=["D/64", "64", "256", "D/32", "D/16", "D/8"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--queries", type=int)
    parser.add_argument("--train", type=int, help="training rows; two thirds of the gallery if not given")
    parser.add_argument("--set", nargs="*", default=[], help="parameters of the methods: name=value")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    labels = np.load(options.labels)
    data = DataSet(options.vectors.stem, open_vectors(options.vectors), labels)
    X, (n_rows, n_features) = data.vectors, data.vectors.shape
    sizes = split_sizes(n_rows, options.queries, options.train, max_train=n_rows)
    output = options.output or RESULTS / f"mixed_{data.name}.json"
    rows = json.loads(output.read_text())["rows"] if output.exists() else []
    params = {name: value(text) for name, text in (one.split("=", 1) for one in options.set)}

    if "learnt_bits" in params:
        mixed._BITS = (params["learnt_bits"],) * 2

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        write_result(output, {"data": data.identity, "rows": rows})
        print(data.name, row, flush=True)

    for seed in options.seeds:
        split = draw_split(n_rows, *sizes, seed)
        gallery, queries = X[split.gallery], X[split.queries]

        def found(ids: Any, split: Any = split) -> list[float]:
            return [round(precision_at_k(ids, labels[split.gallery], labels[split.queries], k), 4) for k in K]

        for method in options.methods:
            about = {"method": method, "seed": seed, "train": sizes[1], "queries": sizes[0]}
            about |= {"fingerprint": data.identity["fingerprint"]} | ({"params": params} if params else {})
            texts = options.bits if method != "original" else ["D/1"]
            lengths = [n_features // int(text[2:]) if text.startswith("D/") else int(text) for text in texts]
            known = [row["bits"] for row in rows if about.items() <= row.items() and (params or "params" not in row)]
            lengths = [n_bits for n_bits in lengths if n_bits not in known]
            if method == "original" and lengths:
                keep(about | {"bits": n_features, "hamming": found(float_neighbors(gallery, queries))})
                continue
            for own in [lengths] if method in NESTED and lengths else [[n_bits] for n_bits in lengths]:
                cls = METHODS[method]
                given = {"n_bits": max(own), "n_jobs": options.jobs, "random_state": seed} | params
                coder = cls(**{name: given[name] for name in given if name in cls().get_params()})
                taught = [labels[split.training]] if getattr(coder, "learns_labels", False) else []
                start, busy = time.perf_counter(), time.process_time()
                coder.fit(X[split.training], *taught)
                seconds, busy = time.perf_counter() - start, time.process_time() - busy
                about |= {"fit s": round(seconds, 1), "fit cpu s": round(busy, 1)}
                about |= {"iterations": int(getattr(coder, "n_iter_", 0))}
                codes = coder.transform(gallery)
                if coder.distance != "hamming":
                    keep(about | {"bits": own[0], "hamming": found(search(coder, queries, codes, max(K))[1])})
                    continue
                asked = coder.transform(queries)
                values = coder.query_values(queries) if hasattr(coder, "query_values") else None
                for n_bits in own:
                    first = slice(-(-n_bits // 8))
                    index = HammingIndex(np.ascontiguousarray(codes[:, first]), n_bits=n_bits)
                    row = {"bits": n_bits, "hamming": found(index.search(asked[:, first].copy(), k=max(K))[1])}
                    if values is not None:
                        row["asymmetric"] = found(index.search(values[:, :n_bits].copy(), k=max(K))[1])
                    keep(about | row)


if __name__ == "__main__":
    main()
