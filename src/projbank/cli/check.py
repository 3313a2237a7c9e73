"""`projbank check`: what codes lost, whether new vectors still fit the bank, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from projbank.cli.options import AsJson, Dataset, Jobs, Metric, Quiet, Reading, Table, To, load_bank, verbosity
from projbank.cli.recode import Store
from projbank.cli.store import Engine, open_store


def check(
    files: Annotated[
        list[Path], Argument(help="Model file of a bank and file of vectors; or vectors only, with --codes.")
    ],
    codes: Annotated[
        Path | None, Option(help="Their codes: .npy of dtype uint8, an index of projbank, or a binary index of FAISS.")
    ] = None,
    index: Annotated[Path | None, Option(help="The same as --codes.")] = None,
    store: Annotated[Store | None, Option(help="Or the engine of a store, made by projbank store.")] = None,
    to: To = "store",
    table: Table = "codes",
    labels: Annotated[Path | None, Option(help="Labels: .npy, one per vector.")] = None,
    new: Annotated[Path | None, Option(help="New vectors: do they differ from those the bank knows?")] = None,
    reference: Annotated[
        Path | None, Option(help="For --new: older vectors that the bank was not learnt from.")
    ] = None,
    bits: Annotated[int | None, Option("--bits", "-b", help="Bits per code, where nothing else says so.")] = None,
    queries: Annotated[int, Option(help="Vectors that search for their neighbours.")] = 500,
    metric: Annotated[Metric, Option(help="What nearness of vectors means.")] = Metric.l2,
    seed: Annotated[int, Option(help="Seed of the sample.")] = 0,
    picture: Annotated[Path | None, Option(help="Draw a picture, too: .png, .svg or .pdf.")] = None,
    as_json: AsJson = False,
    dataset: Dataset = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Measure what codes lost of their vectors, and say what to do.

    Some of the vectors search for their neighbours, once by all their numbers and once by their codes. With --new, new
    vectors are compared with those that the bank was learnt from, with 1 % of false alarms.
    """
    from projbank.integrity import check_made_by
    from projbank.rows.files import open_array, open_vectors
    from projbank.upkeep.check import check as measure
    from projbank.upkeep.sources import StoredCodes, open_codes

    if not 1 <= len(files) <= 2:
        raise ValueError(f"projbank check takes a bank and vectors, or vectors alone. Got {len(files)} files.")
    if sum(given is not None for given in (codes, index, store)) > 1:
        raise ValueError("Codes come from --codes, --index or --store: give one of them.")
    place = codes or index
    if len(files) == 1 and place is None and store is None:
        raise ValueError("projbank check needs a bank and vectors, or vectors and --codes, --index or --store.")
    vectors, bank_path = files[-1], files[0] if len(files) == 2 else None
    X = open_vectors(vectors, dataset)
    bank: Any = None
    if bank_path is not None:
        bank = load_bank(bank_path)
        Reading(dataset).check(vectors, X, bank_path, bank)
        bank.set_params(n_jobs=jobs, verbose=0)
    stored = None if place is None else open_codes(place)
    if store is not None:
        with open_store(Engine(store.value), to, table) as opened:
            stored = StoredCodes(opened.codes(), opened.numbers(), opened.n_bits, None)
    if bank is not None and stored is not None:
        mend = f"check it with the bank that made it, or code anew: projbank recode {bank_path} {vectors} {place}"
        check_made_by(
            str(place), stored.made_by, str(bank_path), bank.identity(), mend, getattr(bank, "comparable_", ())
        )
    found = measure(
        bank,
        X,
        codes=None if stored is None else stored.codes,
        ids=None if stored is None else stored.ids,
        n_bits=bits or (stored and bank is None and stored.n_bits) or None,
        labels=None if labels is None else open_array(labels),
        new=None if new is None else open_vectors(new, dataset),
        reference=None if reference is None else open_vectors(reference, dataset),
        n_queries=queries,
        metric=metric.value,
        seed=seed,
        n_jobs=jobs,
        verbose=verbosity(quiet, 0),
    )
    if picture is not None:
        found.save_picture(picture)
    print(json.dumps(found.as_dict()) if as_json else found)
