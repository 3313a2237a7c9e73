"""What `text.py` needs of SciFact: texts and judgements, their token vectors, and nDCG."""

import ast
import csv
import io
import re
import zipfile

import numpy as np

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
