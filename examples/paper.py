"""The paper's comparison in small: its banks, LSH, ITQ and the default, beside what the paper prints for Flickr 1M.

    python examples/paper.py vectors.npy labels.npy
    python examples/paper.py                          # small Fisher vectors of scikit-learn's digits

Data differ, so compare the order of methods, not the level. `projbank reproduce paper` does it with seeds and a report.
"""

import argparse

import numpy as np

from projbank.methods import METHODS, search
from projbank.methods.nearest import nearest_vectors
from projbank.metrics import precision_at_k
from projbank.paper.digits import digit_vectors
from projbank.paper.report.paper import precision

RATIOS = 16, 8
NAMES = {"lsh": {}, "itq": {"max_iter": 10}, "bpb": {}, "kbpb-rbf": {"n_basis": 300}, "mixed": {}}
K = 50


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="vectors.npy labels.npy")
    parser.add_argument("--methods", nargs="+", default=list(NAMES), choices=sorted(METHODS))
    args = parser.parse_args(words)
    X, y = map(np.load, args.files) if args.files else digit_vectors(1000)
    order = np.random.default_rng(0).permutation(len(X))
    queries, gallery = order[: len(X) // 5], order[len(X) // 5 :]

    def score(ids):
        return f"{precision_at_k(ids, y[gallery], y[queries], K):9.3f}"

    def printed(method):
        return "".join(f"{precision('Flickr 1M', 'fv', method, K, ratio) or '-':>9}" for ratio in RATIOS)

    print(f"P@{K} of {len(gallery):,} vectors of {X.shape[1]:,} numbers; the paper's: a million of 64,000, Flickr")
    print(f"{'':10}{'D/16':>9}{'D/8':>9}   paper:{'D/16':>9}{'D/8':>9}")
    print(f"{'floats':10}{2 * score(nearest_vectors(X[queries], X[gallery], K)[1])}{'':9}{printed('original')}")
    for name in args.methods:
        line = ""
        for ratio in RATIOS:
            method = METHODS[name](n_bits=X.shape[1] // ratio, **NAMES.get(name, {}))
            codes = method.fit(X[gallery]).transform(X[gallery])
            line += score(search(method, X[queries], codes, K)[1])
        print(f"{name:10}{line}{'':9}{printed(name)}", flush=True)


if __name__ == "__main__":
    main()
