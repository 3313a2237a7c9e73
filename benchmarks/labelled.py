"""What labels are worth: the headed bank with and without them, beside discriminants rotated as in ITQ.

    python -m benchmarks.labelled ucf101.npy ucf101.labels.npy

    python -m benchmarks.labelled ucf101.npy ucf101.labels.npy --split ucf101.split.npy --bits 2560

The rival is the method `lda+itq`; floats are compared by cosine. One split, random or given; precision after 10 and 50
results by Hamming distance, and accuracy of a linear SVM on rows of length 1, as in the paper's protocol. Of a given
split, the rows of 1 are learnt from and searched, by the others. Figures are means over seeds of the methods.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks.common import RESULTS, write_result
from benchmarks.mixed import float_neighbors
from projbank import HammingIndex
from projbank.bits import unpack
from projbank.evaluate.data import DataSet, Split, draw_split, split_sizes
from projbank.methods import METHODS
from projbank.metrics import precision_at_k
from projbank.paper.action import C, compact
from projbank.rows.files import open_array, open_vectors

KS = (10, 50)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description="What labels are worth.")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--split", type=Path)
    parser.add_argument("--bits", type=int, default=320)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS / "labelled.json")
    given = parser.parse_args()
    data = DataSet(given.vectors.stem, open_vectors(given.vectors), open_array(given.labels))
    split = draw_split(data.vectors.shape[0], *split_sizes(data.vectors.shape[0]), 0)
    if given.split:
        known = np.flatnonzero(open_array(given.split) == 1)
        split = Split(np.setdiff1d(np.arange(data.vectors.shape[0]), known), known, known)
    labels = np.asarray(data.labels)
    known, gallery_labels, wanted = (labels[ids] for ids in (split.training, split.gallery, split.queries))
    training, gallery, queries = (data.take(ids) for ids in (split.training, split.gallery, split.queries))

    def judged(ids: Any, seen: Any, asked: Any, seed: int) -> list[float]:
        """Precision, and accuracy of a linear SVM that learns from rows `seen` and is asked about others."""
        rows = compact(normalize(np.concatenate([seen, asked])))
        machine = LinearSVC(C=C, dual=True, random_state=seed, max_iter=5000).fit(rows[: len(seen)], known)
        values = [precision_at_k(ids, gallery_labels, wanted, k) for k in KS]
        return [*values, float(machine.score(rows[len(seen) :], wanted))]

    coders = {
        "headed bank": ("mixed", None),
        "headed bank, labels": ("mixed", known),
        "discriminants, rotated": ("lda+itq", known),
    }
    nearest = float_neighbors(gallery, queries)
    values = {"floats": [judged(nearest, training, queries, seed) for seed in given.seeds]}
    for name, (method, taught) in coders.items():
        values[name] = []
        for seed in given.seeds:
            coder = METHODS[method](given.bits, n_jobs=given.jobs, random_state=seed).fit(training, taught)
            codes, asked, seen = (coder.transform(rows) for rows in (gallery, queries, training))
            ids = HammingIndex(codes, n_bits=given.bits).search(asked, max(KS))[1]
            signs = [2.0 * unpack(bits, given.bits) - 1 for bits in (seen, asked)]
            values[name].append(judged(ids, signs[0], signs[1], seed))
        print(name, values[name], flush=True)
    keys = [*(f"P@{k}" for k in KS), "SVM"]
    found = {
        name: dict(zip(keys, np.mean(rows, axis=0).round(4).tolist(), strict=True)) for name, rows in values.items()
    }
    about = {"bits": given.bits, "training": len(training), "queries": len(queries), "seeds": given.seeds}
    write_result(given.output, {"data": data.identity, **about, "found": found})


if __name__ == "__main__":
    main()
