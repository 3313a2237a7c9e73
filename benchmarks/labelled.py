"""What labels are worth: the headed bank with and without them, beside discriminants rotated as in ITQ.

    python -m benchmarks.labelled ucf101.npy ucf101.labels.npy

The rival is linear discriminant analysis on the principal components of the training vectors. Its discriminants, one
fewer than classes, are turned into bits by the rotation of ITQ (Gong and Lazebnik, CVPR 2011). One split; precision
after 10 and 50 results by Hamming distance, and accuracy of a linear SVM on the bits.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex, ProjectionBank
from projbank.bits import unpack
from projbank.evaluate.data import DataSet, draw_split, split_sizes
from projbank.learn.rotation import learn_rotation
from projbank.metrics import precision_at_k
from projbank.rows.files import open_array, open_vectors

KS = (10, 50)
COMPONENTS = 256


def discriminants(training: Any, labels: Any, n_bits: int) -> Any:
    """Return a function from vectors to packed codes: rotated discriminants."""
    n_components = min(COMPONENTS, len(training) // 2)
    steps = make_pipeline(
        PCA(n_components, random_state=0), LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    )
    steps.fit(training, labels)

    values = steps.transform(training).astype(np.float32)
    rotation, _ = learn_rotation(values / np.sqrt(np.mean(values**2)), n_bits, 50, np.random.default_rng(0))
    return lambda rows: np.packbits(steps.transform(rows) @ rotation > 0, axis=1, bitorder="little")


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description="What labels are worth.")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--bits", type=int, default=320)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS / "labelled.json")
    given = parser.parse_args()
    data = DataSet(given.vectors.stem, open_vectors(given.vectors), open_array(given.labels))
    split = draw_split(data.vectors.shape[0], *split_sizes(data.vectors.shape[0]), 0)
    labels = np.asarray(data.labels)
    training, gallery, queries = (data.take(ids) for ids in (split.training, split.gallery, split.queries))
    bank = ProjectionBank(given.bits, n_jobs=given.jobs)
    coders = {
        "headed bank": bank.fit(training).transform,
        "headed bank, labels": ProjectionBank(given.bits, n_jobs=given.jobs)
        .fit(training, labels[split.training])
        .transform,
        "discriminants, rotated": discriminants(training, labels[split.training], given.bits),
    }
    found = {}
    for name, code in coders.items():
        codes, asked, seen = (code(rows) for rows in (gallery, queries, training))
        ids = HammingIndex(codes, n_bits=given.bits).search(asked, max(KS))[1]
        values = {f"P@{k}": precision_at_k(ids, labels[split.gallery], labels[split.queries], k) for k in KS}
        machine = LinearSVC(C=0.01, random_state=0).fit(2.0 * unpack(seen, given.bits) - 1, labels[split.training])
        values["SVM"] = float(machine.score(2.0 * unpack(asked, given.bits) - 1, labels[split.queries]))
        found[name] = {key: round(value, 4) for key, value in values.items()}
        print(name, found[name], flush=True)
    write_result(given.output, {"data": data.identity, "bits": given.bits, "training": len(training), "found": found})


if __name__ == "__main__":
    main()
