"""Place recognition: descriptors of a folder to codes, and recall@1/5/10 beside the floats, PCA and RaBitQ after PCA.

    pip install ".[hdf5]"
    python examples/descriptors.py gallery/ queries/ --gallery-places g.npy --query-places q.npy --bits 4096

`gallery/` and `queries/` are folders of `.npy` or `.h5` files, or single files, one descriptor per row: AnyLoc-VLAD
(49,152 numbers), SALAD or MegaLoc (8,448), maps of a convolutional net. Places are positions (n, 2) in metres, where a
result within --metres is right, or labels (n,). Recall@k is the share of queries with a right one among the first k.
"""

import argparse
import time

import numpy as np
from sklearn.decomposition import PCA

from projbank import ProjectionBank
from projbank.methods import METHODS
from projbank.methods.nearest import nearest_vectors, search
from projbank.rows.files import open_vectors
from projbank.rows.source import as_rows

K = 10


def float_search(gallery, queries):
    """Exact nearest descriptors, with a few thousand of the gallery's in memory at a time."""
    points = queries.block(0, queries.shape[0])
    best, ids = np.full((len(points), 0), np.inf, np.float32), np.empty((len(points), 0), np.int64)
    for start, block in gallery.blocks():
        distances, found = nearest_vectors(points, block, min(K, len(block)))
        best, ids = np.hstack([best, distances]), np.hstack([ids, found + start])
        order = np.argsort(best, axis=1, kind="stable")[:, :K]
        best, ids = np.take_along_axis(best, order, 1), np.take_along_axis(ids, order, 1)
    return ids


def reduced(model, rows):
    """Rows brought down by a fitted PCA, block by block."""
    return np.concatenate([model.transform(block) for _, block in rows.blocks()]).astype(np.float32)


def are_right(ids, gallery_places, query_places, metres):
    """Which results are of the query's place, (n_queries, k) bool."""
    if gallery_places.ndim == 1:
        return gallery_places[ids] == query_places[:, None]
    return np.linalg.norm(gallery_places[ids] - query_places[:, None], axis=2) <= metres


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gallery")
    parser.add_argument("queries")
    parser.add_argument("--gallery-places", required=True)
    parser.add_argument("--query-places", required=True)
    parser.add_argument("--metres", type=float, default=25)
    parser.add_argument("--bits", type=int, default=4096)
    parser.add_argument("--solver", default="mixed")
    parser.add_argument("--components", type=int, default=512)
    args = parser.parse_args(words)
    gallery, queries = as_rows(open_vectors(args.gallery)), as_rows(open_vectors(args.queries))
    places = np.load(args.gallery_places), np.load(args.query_places)
    train = gallery.read(gallery.sample(10_000, 0))

    def floats():
        return float_search(gallery, queries), 4 * gallery.shape[1]

    def codes():
        bank = ProjectionBank(args.bits, solver=args.solver).fit(train)
        return search(bank, queries, bank.transform(gallery), K)[1], bank.code_bytes

    def components():
        few = min(args.components, len(train) - 1)
        model = PCA(few, svd_solver="randomized", random_state=0).fit(train)
        return reduced(model, gallery), reduced(model, queries)

    def pca():
        short, points = components()
        return nearest_vectors(points, short, K)[1], 4 * short.shape[1]

    def rabitq():
        short, points = components()
        coder = METHODS["rabitq"](n_bits=short.shape[1], random_state=0).fit(short)
        return search(coder, points, coder.transform(short), K)[1], coder.code_bytes

    ways = {
        "floats": floats,
        f"projbank, {args.bits} bits": codes,
        f"PCA-{args.components}": pca,
        f"RaBitQ after PCA-{args.components}": rabitq,
    }
    print(f"{gallery.shape[0]:,} descriptors of {gallery.shape[1]:,} numbers, {queries.shape[0]:,} queries")
    print(f"{'':<24}{'bytes':>10}{'R@1':>8}{'R@5':>8}{'R@10':>8}{'seconds':>10}")
    for name, way in ways.items():
        start = time.perf_counter()
        ids, n_bytes = way()
        right = are_right(ids, *places, args.metres)
        recalls = "".join(f"{right[:, :k].any(axis=1).mean():>8.3f}" for k in (1, 5, K))
        print(f"{name:<24}{n_bytes:>10,}{recalls}{time.perf_counter() - start:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
