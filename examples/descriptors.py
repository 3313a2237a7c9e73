"""Place recognition: recall@1/5/10 of codes of descriptors, beside the floats, PCA and RaBitQ after PCA.

    python examples/descriptors.py gallery/ queries/ gallery_places.npy query_places.npy --bits 4096

Descriptors are files or folders of `.npy` or `.h5` files, one per row: AnyLoc-VLAD (49,152 numbers), SALAD or MegaLoc
(8,448), maps of a convolutional net. Places are positions (n, 2) in metres, where a result within --metres is right, or
labels (n,). Recall@k is the share of queries with a right one among the first k.
"""

import argparse

import numpy as np

from projbank import ProjectionBank
from projbank.methods import METHODS
from projbank.methods.nearest import nearest_vectors, search
from projbank.rows.files import open_vectors
from projbank.rows.source import as_rows


def by_floats(gallery, queries):
    """Exact nearest descriptors; the gallery is read in blocks."""
    points = queries.block(0, queries.shape[0])
    found = [(start, *nearest_vectors(points, block, 10)) for start, block in gallery.blocks()]
    order = np.argsort(np.hstack([distances for _, distances, _ in found]), axis=1, kind="stable")[:, :10]
    return np.take_along_axis(np.hstack([start + ids for start, _, ids in found]), order, 1)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=4, help="gallery, queries, gallery_places, query_places")
    for name, value in {"--metres": 25, "--bits": 4096, "--components": 512}.items():
        parser.add_argument(name, type=int, default=value)
    args = parser.parse_args(words)
    gallery, queries = (as_rows(open_vectors(file)) for file in args.files[:2])
    places, targets = map(np.load, args.files[2:])
    train = gallery.chosen(gallery.sample(10_000, 0))
    print(f"{f'{len(places)} of {gallery.shape[1]} numbers':<34}{'bytes':>8}{'R@1':>8}{'R@5':>8}{'R@10':>8}")

    def tell(name, ids, n_bytes):
        apart = places[ids] - targets[:, None]
        right = apart == 0 if places.ndim == 1 else np.linalg.norm(apart, axis=2) <= args.metres
        print(f"{name:<34}{n_bytes:>8,}", *(f"{right[:, :k].any(1).mean():>7.3f}" for k in (1, 5, 10)), flush=True)

    def by_codes(name, method, train=train, gallery=gallery, queries=queries, asymmetric=False):
        codes = method.fit(train).transform(gallery)
        tell(name, search(method, queries, codes, 10, asymmetric=asymmetric)[1], codes[0].nbytes)
        return codes

    tell("floats", by_floats(gallery, queries), 4 * gallery.shape[1])
    by_codes(f"projbank, {args.bits} bits", ProjectionBank(args.bits))
    by_codes("... for distances, asymmetric", ProjectionBank(args.bits, preserve="distances"), asymmetric=True)
    pca = METHODS["pca"](n_bits=args.components)
    short = by_codes(f"PCA-{args.components}", pca)
    rabitq = METHODS["rabitq"](n_bits=short.shape[1])
    by_codes(f"RaBitQ after PCA-{args.components}", rabitq, short, short, pca.transform(queries))


if __name__ == "__main__":
    main()
