"""What the names of a report mean: methods, and words of its tables."""

from __future__ import annotations

from collections.abc import Sequence

from projbank.paper.report.content import Cell, Column, Table
from projbank.paper.report.study import SetInfo, method_name, order_of

METHODS = {
    "original": "the float vectors themselves, by Euclidean distance",
    "pca": "principal components, as many float numbers as others have bits",
    "pq": "product quantisation: 8 numbers are replaced by the nearest of 256 centres, a byte",
    "pka": "sums of dimensions that behave alike, as float numbers",
    "rr": "random projection, as float numbers; the paper calls it a random rotation",
    "rr+pq": "random projection, then product quantisation",
    "sign": "the signs of the vector itself, D bits",
    "alpha0": "the signs of half a Fisher vector, and which Gaussians were visited",
    "lsh": "locality-sensitive hashing: signs of random projections",
    "sph": "spectral hashing: sine waves along principal components",
    "bpbc": "bilinear projection-based codes: the vector as a matrix, between two small learnt matrices",
    "cbe": "circulant binary embedding: a learnt circulant matrix, by FFT",
    "cbe-rand": "the same with a random circulant matrix",
    "itq": "iterative quantisation: principal components, rotated to lie near their signs",
    "kmeans+itq": "ITQ of 20 bits in each of many groups of dimensions",
    "randst+bpb": "the paper's bank on random groups of dimensions",
    "bpb": "binary projection bank, the paper's method: a weighted sum per k-means group of dimensions",
    "bpb-equal": "the same on k-means groups of equal size",
    "kbpb-poly": "the paper's bank with a polynomial kernel in place of sums",
    "kbpb-rbf": "the paper's bank with an RBF kernel",
    "kbpb-rbf-equal": "the same on k-means groups of equal size",
    "joint": "projbank's plain bank: one sum per bit, all weights learnt together",
    "mixed": "projbank's default: sums of a random bank, and a learnt head that turns them into bits",
    "distances": "projbank's codes for distances: principal components, rotated towards their signs",
    "lda+itq": "discriminants, which labels teach, rotated to lie near their signs",
    "srht+sign": "signs of random Hadamard coefficients",
    "sign-select": "the signs of the best dimensions",
    "rabitq": "a bit per number of a rotated vector, and two floats that correct the distance",
}
WORDS = {
    "P@50, precision at 50": "share of the first 50 results that are of the query's class",
    "D/16": "codes of D / 16 bits, for vectors of D numbers",
    "Hamming, asymmetric": "codes are compared with codes, or stored codes with float queries",
    "seed": "a random split into queries, gallery and training vectors",
    "training vectors": "what methods learn from; never the queries",
    "pairwise error": "share of pairs that a bit puts on the wrong side",
    "soft": "a dimension serves several bits",
}


def names_table(sets: Sequence[SetInfo]) -> Table:
    """The methods that were measured, then the words of the tables."""
    found = {
        record["method"].partition(" ")[0] for one in sets for records in one.records.values() for record in records
    }
    rows = [[Cell(method_name(name)), Cell(METHODS[name])] for name in sorted(found & set(METHODS), key=order_of)]
    rows += [[Cell(word), Cell(meaning)] for word, meaning in WORDS.items()]
    return Table("names", "Methods and words", [Column("name"), Column("what it is")], rows, prose=True)
