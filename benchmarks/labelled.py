"""What labels are worth: the headed bank with and without them, beside discriminants rotated as in ITQ.

    python -m benchmarks.labelled ucf101.npy ucf101.labels.npy

    python -m benchmarks.labelled ucf101.npy ucf101.labels.npy --split ucf101.split.npy --bits 2560

The rival is the method `lda+itq`. One split, random or given; precision after 10 and 50 results by Hamming distance,
and accuracy of a linear SVM on the bits. Of a given split, the rows of 1 are learnt from and searched, by the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex
from projbank.bits import unpack
from projbank.evaluate.data import DataSet, Split, draw_split, split_sizes
from projbank.methods import METHODS
from projbank.metrics import precision_at_k
from projbank.rows.files import open_array, open_vectors

KS = (10, 50)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description="What labels are worth.")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--split", type=Path)
    parser.add_argument("--bits", type=int, default=320)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS / "labelled.json")
    given = parser.parse_args()
    data = DataSet(given.vectors.stem, open_vectors(given.vectors), open_array(given.labels))
    split = draw_split(data.vectors.shape[0], *split_sizes(data.vectors.shape[0]), 0)
    if given.split:
        known = np.flatnonzero(open_array(given.split) == 1)
        split = Split(np.setdiff1d(np.arange(data.vectors.shape[0]), known), known, known)
    labels = np.asarray(data.labels)
    training, gallery, queries = (data.take(ids) for ids in (split.training, split.gallery, split.queries))
    coders = {
        "headed bank": ("mixed", None),
        "headed bank, labels": ("mixed", labels[split.training]),
        "discriminants, rotated": ("lda+itq", labels[split.training]),
    }
    found = {}
    for name, (method, taught) in coders.items():
        coder = METHODS[method](given.bits, n_jobs=given.jobs).fit(training, taught)
        codes, asked, seen = (coder.transform(rows) for rows in (gallery, queries, training))
        ids = HammingIndex(codes, n_bits=given.bits).search(asked, max(KS))[1]
        values = {f"P@{k}": precision_at_k(ids, labels[split.gallery], labels[split.queries], k) for k in KS}
        machine = LinearSVC(C=0.01, random_state=0).fit(2.0 * unpack(seen, given.bits) - 1, labels[split.training])
        values["SVM"] = float(machine.score(2.0 * unpack(asked, given.bits) - 1, labels[split.queries]))
        found[name] = {key: round(value, 4) for key, value in values.items()}
        print(name, found[name], flush=True)
    write_result(given.output, {"data": data.identity, "bits": given.bits, "training": len(training), "found": found})


if __name__ == "__main__":
    main()
