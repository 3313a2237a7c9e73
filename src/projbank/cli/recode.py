"""`projbank recode`: code again what stands in a file of codes or an index, after a bank was renewed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from projbank.cli import options

Store = StrEnum("Store", ["faiss", "lancedb", "postgres", "sqlite"])


def recode(
    bank: Annotated[Path, Argument(help="Model file of the new bank.")],
    vectors: Annotated[Path, Argument(help="The vectors, as `projbank encode` reads them.")],
    codes: Annotated[
        Path | None, Argument(help="File of codes (.npy) or index file, replaced in one step in the end.")
    ] = None,
    store: Annotated[Store | None, Option(help="Or the engine of a store, made by projbank store.")] = None,
    to: options.To = "store",
    table: options.Table = "codes",
    ids: Annotated[
        Path | None, Option(help="Id of each vector (.npy), where ids of the index are not numbers of rows.")
    ] = None,
    dataset: options.Dataset = None,
    layer: options.Layer = None,
    from_obsm: options.FromObsm = None,
    normalize: options.Normalize = None,
    jobs: options.Jobs = None,
    quiet: options.Quiet = False,
) -> None:
    """Code vectors again by a renewed bank, in place of older codes.

    The old codes are there until the new ones are whole. A run that was cut off goes on when the same command is given
    again.
    """
    from projbank.rows.files import open_array
    from projbank.upkeep.recode import recode as run
    from projbank.upkeep.recode import recode_store

    if (codes is None) == (store is None):
        raise ValueError("projbank recode takes a file of codes, an index, or --store: give one of them.")
    model = options.load_bank(bank)
    reading = options.Reading(dataset, layer, from_obsm, normalize)
    X = reading.open(vectors)
    reading.check(vectors, X, bank, model)
    model.set_params(n_jobs=jobs, verbose=0)
    own = None if ids is None else open_array(ids)
    place, shown = codes or to, options.verbosity(quiet, 0)
    try:
        if store is None:
            facts = run(model, X, str(codes), ids=own, verbose=shown)
        else:
            from projbank.cli.store import Engine, open_store

            work = (
                Path(f".{table}.recoding")
                if store is Store.postgres
                else Path(to).with_name(f".{Path(to).name}.recoding")
            )
            with open_store(Engine(store.value), to, table) as opened:
                facts = recode_store(model, X, opened, work, ids=own, verbose=shown)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {place} is as it was, the same command goes on") from None
    kept = facts["codes"] - facts["coded"]
    rest = f", {kept} of them by an earlier run" if kept else ""
    print(f"{place}: {facts['codes']} codes of {model.n_bits_} bits by {model.identity()}{rest}")
