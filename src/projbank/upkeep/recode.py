"""Coding anew after a renewal: old codes are served until the new ones are whole, and a killed run goes on.

New codes are collected in a folder beside what they replace, ``.NAME.recoding``, block by block. What a killed process
has left there is taken up by the next run with the same bank and vectors. When all are there, file or index is replaced
in one step.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.integrity import checksum, input_file, open_npy
from projbank.kinds import kind_of
from projbank.models.reference import keys
from projbank.progress import progress
from projbank.rows.source import RowSource, as_rows
from projbank.rows.views import ChosenRows
from projbank.search import HammingIndex
from projbank.sinks import Output, npy_sink
from projbank.stores.base import CodeStore
from projbank.unfinished import Unfinished

BLOCK_BYTES = 32 << 20
"""Vectors that are coded between two looks at the disk: what a kill costs at most."""
_LOOKED_AT = 64
"""Vectors whose checksums tell whether a run goes on with the same ones."""

Ids = NDArray[np.int64]


def recode(
    bank: Any, X: Any, path: str | os.PathLike[str], *, ids: ArrayLike | None = None, verbose: int = 0
) -> dict[str, Any]:
    """Code again what stands in a file of codes or in an index, by another bank.

    Parameters
    ----------
    bank : fitted bank, or compared method of binary codes
    X : (N, D) the vectors
    path : file of codes (`.npy`) or index file, which is replaced in one step in the end
    ids : int (N,), optional
        Id of each vector, as an index has it; by default ids are numbers of rows. In a file of codes, and in an index
        whose ids are texts, codes stand in the order of the vectors.
    verbose : 1 shows a progress bar on a terminal

    Returns
    -------
    facts : "codes" in all, "coded" in this run, "kind" of the file
    """
    path = input_file(path)
    rows = as_rows(X)
    _check_bank(bank, rows)
    target = Path(os.path.realpath(path))
    unfinished = Unfinished(target, {}, folder=target.with_name(f".{target.name}.recoding"))
    kind = "index" if kind_of(target) == "index" else "codes"
    with unfinished.locked():
        if kind == "index":
            coded, n_codes = _recode_index(bank, rows, target, unfinished, ids, verbose)
        else:
            coded, n_codes = _recode_file(bank, rows, target, unfinished, verbose)
        unfinished.discard()
    return {"kind": kind, "codes": n_codes, "coded": coded}


def recode_store(
    bank: Any, X: Any, store: CodeStore, work: str | os.PathLike[str], *, ids: ArrayLike | None = None, verbose: int = 0
) -> dict[str, Any]:
    """Code again what stands in a store, which keeps its length; as `recode`.

    Parameters
    ----------
    store : an open store, whose codes are replaced in one step; where ids are texts, vectors are in their order
    work : folder for codes that are done, until all are: a run that was cut off goes on with it
    """
    rows, unfinished = as_rows(X), Unfinished(Path(work), {}, folder=Path(work))
    _check_bank(bank, rows)
    if store.n_bits != bank.n_bits_:
        raise ValueError(f"bank must make codes of {store.n_bits} bits, as the store holds. Got {bank.n_bits_} bits.")
    coded, numbers = 0, np.empty(0, np.int64)
    with unfinished.locked():
        while not coded or not np.array_equal(store.numbers(), numbers):  # others may add codes meanwhile
            numbers = store.numbers()
            codes, n_new = collect(bank, rows, _places(numbers, rows, ids, "the store"), unfinished, verbose)
            coded += n_new
            if not n_new:
                break
        store.replace(codes)
        unfinished.discard()
    return {"kind": "store", "codes": len(numbers), "coded": coded}


def collect(
    bank: Any, rows: RowSource, places: Ids, unfinished: Unfinished, verbose: int = 0
) -> tuple[NDArray[np.uint8], int]:
    """Codes of some rows, in their order, and how many were made in this run; an earlier one had made the others.

    Parameters
    ----------
    rows : the vectors
    places : row of each code
    unfinished : keeps what is done, whatever happens to this process
    """
    looked_at = np.unique(np.linspace(0, rows.shape[0] - 1, _LOOKED_AT).astype(np.int64))
    job = json.dumps([bank.identity(), rows.shape, checksum(keys(rows, looked_at)), checksum(places)])
    step, shape = max(1, BLOCK_BYTES // (4 * rows.shape[1])), (len(places), int(bank.code_bytes))
    with (
        unfinished.rows("codes.npy", shape, np.uint8, job) as (write, n_done),
        progress("coding anew", len(places), verbose, done=n_done) as advance,
    ):
        for start in range(n_done, len(places), step):
            own = places[start : start + step]
            order = np.argsort(own, kind="stable")
            codes = np.empty((len(own), shape[1]), np.uint8)
            codes[order] = bank.transform(ChosenRows(rows, own[order]))
            write(start, codes)
            advance(len(own))
    return open_npy(unfinished.folder / "codes.npy")[0], len(places) - n_done


def _recode_file(bank: Any, rows: RowSource, path: Path, unfinished: Unfinished, verbose: int) -> tuple[int, int]:
    old, note = open_npy(path)
    if old.dtype != np.uint8 or old.ndim != 2:
        raise ValueError(f"{path}: holds no codes, but {old.dtype} of shape {old.shape}.")
    if len(old) != rows.shape[0]:
        raise ValueError(f"{path}: holds {len(old)} codes, but there are {rows.shape[0]} vectors.")
    codes, coded = collect(bank, rows, np.arange(len(old)), unfinished, verbose)
    facts = {**(note or {}), "kind": "codes", "made_by": bank.identity(), "n_bits": int(bank.n_bits_)}
    facts |= {"comparable": list(getattr(bank, "comparable_", ())) or None, "checksum": None}
    with npy_sink(Output(path, codes.shape, codes.dtype, facts, force=note is None)) as (write, _):
        write(0, codes)
    return coded, len(codes)


def _recode_index(
    bank: Any, rows: RowSource, path: Path, unfinished: Unfinished, ids: ArrayLike | None, verbose: int
) -> tuple[int, int]:
    coded = 0
    while True:
        index = HammingIndex.load(path)
        codes, n_new = collect(bank, rows, _places(index.ids, rows, ids, path), unfinished, verbose)
        coded += n_new
        own = index.ids
        if np.array_equal(own, HammingIndex.load(path).ids):  # nobody has added codes meanwhile
            break
    payload = index.payload(own) if len(own) else []
    new = HammingIndex(
        codes,
        ids=own.tolist() if own.dtype == object else own,
        n_bits=int(bank.n_bits_),
        payload=payload if any(value is not None for value in payload) else None,
        made_by=bank.identity(),
        recall=index.recall,
    )
    new.save(path)
    return coded, len(own)


def _places(own: NDArray[Any], rows: RowSource, ids: ArrayLike | None, where: Any) -> Ids:
    """Row of each code, whose ids are `own`."""
    if ids is None and own.dtype == object:
        if len(own) != rows.shape[0]:
            raise ValueError(f"{where}: holds {len(own)} codes with text ids, but there are {rows.shape[0]} vectors.")
        return np.arange(len(own))
    if ids is None:
        if len(own) and own.max() >= rows.shape[0]:
            raise ValueError(f"{where}: holds the id {own.max()}, but there are {rows.shape[0]} vectors.")
        return own.astype(np.int64)
    known = np.asarray(ids)
    if known.shape != (rows.shape[0],):
        raise ValueError(f"ids must be {rows.shape[0]}, one per vector. Got shape {known.shape}.")
    order = np.argsort(known, kind="stable")
    places = order[np.minimum(np.searchsorted(known, own, sorter=order), len(known) - 1)]
    missing = np.flatnonzero(known[places] != own)
    if len(missing):
        raise ValueError(f"{where}: holds the id {own[missing[0]]!r}, which is not among ids.")
    return places.astype(np.int64)


def _check_bank(bank: Any, rows: RowSource) -> None:
    if rows.shape[1] != bank.n_features_in_:
        raise ValueError(f"X must have {bank.n_features_in_} dimensions, as the bank. Got {rows.shape[1]}.")
    if getattr(bank, "distance", None) != "hamming":
        raise ValueError(f"bank must be one of binary codes. Got a {type(bank).__name__}.")
