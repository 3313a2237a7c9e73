"""What a code lost: recall of the floats' own neighbours, rank correlation, precision, and the worth of its bits."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, pack, unpack
from projbank.integrity import check_made_by
from projbank.metrics import precision_at_k
from projbank.params import check_choice, check_int
from projbank.rows.source import RowSource, as_rows
from projbank.search import HammingIndex
from projbank.threads import split_rows, thread_count
from projbank.upkeep.bits import bit_figures, ones_share
from projbank.upkeep.drift import check_drift
from projbank.upkeep.result import Check, Pairs
from projbank.upkeep.truth import METRICS, Estimate, exact_neighbors, found_shares, row_distances

KS = (10, 100)
SHORTLISTS = (100, 1000)
_CORRELATED = 1000
"""Other rows to which each query's distances are ranked."""
_DRAWN = 10_000
"""Pairs of distances that the picture shows."""

Ids = NDArray[np.int64]


def check(
    bank: Any,
    X: Any,
    *,
    codes: Any = None,
    ids: ArrayLike | None = None,
    n_bits: int | None = None,
    labels: ArrayLike | None = None,
    new: Any = None,
    reference: Any = None,
    n_queries: int = 500,
    metric: str = "l2",
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Check:
    """Measure what codes lost of their vectors, and whether new vectors still fit the bank.

    Some of the vectors search for their neighbours among all others, once exactly by the floats and once by the codes.

    Parameters
    ----------
    bank : fitted bank or compared method of binary codes, path of its file, or None: then give codes of any origin
    X : (N, D) vectors of anything that `fit` reads
    codes : uint8 (N, ceil(n_bits / 8)) or HammingIndex, optional
        The codes of the vectors; by default the bank makes them. An index may hold some of the vectors only: its ids
        are rows of X (where they are texts, or `ids` is given: the i-th code belongs to the i-th of those rows).
    ids : int (n,), optional
        Row of X of each code.
    n_bits : int, optional
        Bits of a code where no bank and no index say so; by default 8 times its bytes.
    labels : (N,), optional
        Labels of the vectors: the precision of codes and of floats is measured, too.
    new : (M, D), optional
        New vectors: whether they differ from those that the bank was learnt from, and what that costs.
    reference : (n, D), optional
        Vectors that the bank was *not* learnt from, but that come from where its training vectors came from; for `new`.
        By default what the bank kept of rows that were set aside, or not drawn, when it was learnt.
    n_queries : vectors that search
    metric : "l2" or "cosine"
        What nearness of floats means.
    seed : draws the queries
    n_jobs : threads; figures do not depend on it
    verbose : 1 shows a progress bar on a terminal

    Returns
    -------
    Check : prints as a table; its fields are the figures

    Examples
    --------
    >>> import numpy as np
    >>> from projbank import ProjectionBank, check
    >>> X = np.random.default_rng(0).standard_normal((300, 512), dtype=np.float32)
    >>> bank = ProjectionBank(n_bits=64, solver="random").fit(X)
    >>> check(bank, X).bits.dead
    0
    """
    if isinstance(bank, str | os.PathLike):
        from projbank.models.file import load

        bank = load(bank)
    bank = getattr(bank, "bank", bank)  # one that describes pictures carries a bank
    rows, n_threads = as_rows(X), thread_count(n_jobs)
    check_choice("check", "metric", metric, METRICS)
    if bank is None and codes is None:
        raise ValueError("check needs a bank, or codes of the vectors.")
    if bank is None and new is not None:
        raise ValueError("new is for a bank, which codes the new vectors: give bank, too.")
    if bank is not None and getattr(bank, "distance", None) != "hamming":
        raise ValueError(f"bank must be one of binary codes. Got a {type(bank).__name__}.")
    if bank is not None and bank.n_features_in_ != rows.shape[1]:
        raise ValueError(f"X must have {bank.n_features_in_} dimensions, as the bank. Got {rows.shape[1]}.")
    index, places = _gallery(bank, X, codes, ids, n_bits)
    if len(places) < 3:
        raise ValueError(f"check needs at least 3 codes. Got {len(places)}.")
    if places.max() >= rows.shape[0]:
        raise ValueError(f"ids must be rows of X, in the range [0, {rows.shape[0] - 1}]. Got {places.max()}.")
    gallery = rows if np.array_equal(places, np.arange(rows.shape[0])) else rows.chosen(places)
    n, n_queries = len(places), check_int("check", "n_queries", n_queries, 1)
    queries = np.sort(np.random.default_rng(seed).permutation(n)[:n_queries])
    ks = sorted({min(k, n - 1) for k in KS})
    true = exact_neighbors(gallery, queries, ks[-1], metric, n_threads=n_threads, verbose=verbose)
    own, n_bits = index.codes[queries], index.n_bits
    found = _others(index, own, queries, min(max(SHORTLISTS), n - 1), n_threads)
    shares = {k: found_shares(found[:, :k], true[:, :k]) for k in ks}
    asymmetric = None
    if hasattr(bank, "decision_function"):
        values = getattr(bank, "query_values", bank.decision_function)(gallery.read(queries, n_threads))
        real = _others(index, values, queries, ks[-1], n_threads)
        asymmetric = {k: Estimate.of(found_shares(real[:, :k], true[:, :k]), n) for k in ks}
    correlation, pairs = _correlate(gallery, index, queries, metric, seed, n_threads)
    precision = None
    if labels is not None:
        known = np.asarray(labels)
        if known.shape != (rows.shape[0],):
            raise ValueError(f"labels must have shape ({rows.shape[0]},), one per row of X. Got {known.shape}.")
        known = known[places]
        precision = {
            name: {k: precision_at_k(one, known, known[queries], k) for k in ks}
            for name, one in (("codes", found[:, : ks[-1]]), ("floats", true))
        }
    drift = None if new is None else check_drift(bank, as_rows(new), reference, seed=seed)
    return Check(
        n_vectors=n,
        n_features=rows.shape[1],
        n_queries=len(queries),
        metric=metric,
        recall={k: Estimate.of(shares[k], n) for k in ks},
        asymmetric=asymmetric,
        shortlist={m: float(found_shares(found[:, :m], true[:, : ks[0]]).mean()) for m in SHORTLISTS if m < n - 1},
        fewer_bits=_fewer_bits(index, queries, true[:, : ks[0]], seed, n_threads),
        rank_correlation=correlation,
        precision=precision,
        bits=bit_figures(index.codes, n_bits, seed),
        ones=ones_share(index.codes, n_bits),
        vector_bytes=rows.shape[1] * _item_bytes(X),
        code_bytes=index.codes.shape[1],
        pairs=pairs,
        drift=drift,
    )


def _gallery(bank: Any, X: Any, codes: Any, ids: Any, n_bits: int | None) -> tuple[HammingIndex, Ids]:
    """Index whose ids are 0, 1, 2 ..., and the row of X of each, ascending."""
    made_by = None
    if isinstance(codes, HammingIndex):
        own, made_by, n_bits, codes = codes.ids, codes.made_by, codes.n_bits, codes.codes
        ids = own if ids is None and own.dtype != object else ids
        ids = np.arange(len(codes)) if ids is None else ids
    if bank is not None:
        if n_bits not in (None, bank.n_bits_):  # of an index, or given
            raise ValueError(f"codes have {n_bits} bits, but the bank makes {bank.n_bits_}.")
        n_bits = bank.n_bits_
        if made_by is not None:
            mend = "check them with the bank that made them, or code the vectors again: projbank recode"
            check_made_by("codes", made_by, "bank", bank.identity(), mend, getattr(bank, "comparable_", ()))
        codes = bank.transform(X) if codes is None else codes
    array = check_codes(codes, n_bits)
    n_bits = 8 * array.shape[1] if n_bits is None else n_bits
    n_rows = as_rows(X).shape[0]
    if ids is None:
        if len(array) != n_rows:
            raise ValueError(f"codes must be {n_rows}, one per row of X, or come with ids. Got {len(array)}.")
        places = np.arange(n_rows)
    else:
        places = np.asarray(ids)
        if places.shape != (len(array),) or places.dtype.kind not in "iu" or (places < 0).any():
            raise ValueError(f"ids must be {len(array)} rows of X, one per code. Got shape {places.shape}.")
    if np.any(places[1:] < places[:-1]):  # rows are read in the order of the file
        order = np.argsort(places, kind="stable")
        array, places = array[order], places[order]
    return HammingIndex(array, n_bits=n_bits), places.astype(np.int64)


def _others(index: HammingIndex, points: NDArray[Any], queries: Ids, k: int, n_threads: int) -> Ids:
    """Ids of the k nearest of each query by their codes, the query itself left out."""
    found = index.search(points, k + 1, n_jobs=n_threads)[1]
    keep = found != queries[:, None]
    keep[keep.all(axis=1), -1] = False  # many at distance 0 with smaller ids: it is not among them
    return found[keep].reshape(len(found), k)


def _correlate(
    rows: RowSource, index: HammingIndex, queries: Ids, metric: str, seed: int, n_threads: int
) -> tuple[Estimate, Pairs]:
    """Spearman's correlation of distances by floats and by codes, from each query to some other rows."""
    n = rows.shape[0]
    others = np.sort(np.random.default_rng([seed, 1]).permutation(n)[: _CORRELATED + 1])
    floats = row_distances(rows.read(queries, n_threads), rows.read(others, n_threads), metric)
    bits, gallery = unpack(index.codes[queries], index.n_bits), unpack(index.codes[others], index.n_bits)
    a, b = bits.astype(np.float32), gallery.astype(np.float32)
    hamming = a.sum(axis=1)[:, None] + b.sum(axis=1) - 2 * (a @ b.T)
    keep = others != queries[:, None]
    values = np.zeros(len(queries))
    for i, mask in enumerate(keep):
        x, y = (scipy.stats.rankdata(distances[i, mask]) for distances in (floats, hamming))
        if x.std() > 0 and y.std() > 0:
            values[i] = np.corrcoef(x, y)[0, 1]
    middle = float(values.mean())
    left = np.sqrt((n - len(values)) / max(1, n - 1))
    half = 1.96 * left * float(values.std(ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    drawn = np.random.default_rng([seed, 2]).permutation(int(keep.sum()))[:_DRAWN]
    return Estimate(middle, middle - half, middle + half), Pairs(floats[keep][drawn], hamming[keep][drawn])


def _fewer_bits(index: HammingIndex, queries: Ids, true: Ids, seed: int, n_threads: int) -> dict[int, float]:
    """Recall of a half and of a quarter of the bits, drawn at random, by their number."""
    order, recall = np.random.default_rng([seed, 3]).permutation(index.n_bits), {}
    for part in (4, 2):
        n_bits = index.n_bits // part
        if n_bits < 8:
            continue
        kept = np.sort(order[:n_bits])
        parts = split_rows(len(index), max(1, (64 << 20) // index.n_bits))
        codes = np.concatenate([pack(unpack(index.codes[a:b], index.n_bits)[:, kept]) for a, b in parts])
        some = HammingIndex(codes, n_bits=n_bits)
        found = _others(some, codes[queries], queries, true.shape[1], n_threads)
        recall[n_bits] = float(found_shares(found, true).mean())
    return recall


def _item_bytes(X: Any) -> int:
    dtype = getattr(X, "dtype", None)
    return int(dtype.itemsize) if dtype is not None and dtype.kind == "f" else 4
