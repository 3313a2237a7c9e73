"""Your own vectors: what codes of several lengths find, beside the floats, as a table and a plot.

    pip install ".[report]"
    python examples/own_vectors.py vectors.npy labels.npy --picture precision.png

Labels (-1: none) are used to judge only. Without files, products of the pixels of scikit-learn's digits are taken.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from projbank import HammingIndex, ProjectionBank
from projbank.methods.nearest import nearest_vectors
from projbank.metrics import precision_at_k

K = 50


def digit_products():
    """1,797 vectors of 4,096 products of pixels, and the digits that they show."""
    images, digits = load_digits(return_X_y=True)
    return np.sqrt(images[:, :, None] * images[:, None, :]).reshape(len(images), -1).astype(np.float32), digits


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="vectors.npy labels.npy")
    parser.add_argument("--bits", type=int, nargs="+", default=[32, 64, 256])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--picture", default="precision.png")
    args = parser.parse_args(words)
    X, y = [np.load(file, mmap_mode="r") for file in args.files] if args.files else digit_products()
    order = np.random.default_rng(0).permutation(len(X))
    queries, gallery = np.sort(order[: args.queries]), np.sort(order[args.queries :])

    found = [(4 * X.shape[1], nearest_vectors(X[queries], X[gallery], K)[1])]
    for n_bits in args.bits:
        bank = ProjectionBank(n_bits).fit(X[gallery])
        index = HammingIndex(bank.transform(X[gallery]), n_bits=n_bits)
        found.append((bank.code_bytes, index.search(bank.query_values(X[queries]), k=K)[1]))

    sizes = [size for size, _ in found]
    scores = [precision_at_k(ids, y[gallery], y[queries], K) for _, ids in found]
    print(f"{'':>8}{'bytes':>10}{f'P@{K}':>8}")
    for name, size, score in zip(["floats", *(f"{n} bits" for n in args.bits)], sizes, scores, strict=True):
        print(f"{name:>8}{size:>10,}{score:>8.3f}")
    plt.axhline(scores[0], color="grey", ls=":", label="floats")
    plt.semilogx(sizes[1:], scores[1:], "o-", label="codes, queries as floats")
    plt.gca().set(xlabel="bytes a vector", ylabel=f"P@{K}")
    plt.legend()
    plt.savefig(args.picture)
    print(f"{args.picture}: the same as a plot")


if __name__ == "__main__":
    main()
