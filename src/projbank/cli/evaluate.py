"""`projbank evaluate`: every method on a user's own vectors, measured alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from projbank.cli.options import Dataset, Jobs, Quiet, Verbose, read_settings, verbosity
from projbank.progress import console, plain

Train = Annotated[int | None, Option(help="Training vectors; two thirds of the gallery if not given.")]
Set = Annotated[list[str] | None, Option("--set", help="Parameter of a method: itq.max_iter=10; may be repeated.")]
Slow = Annotated[float, Option(help="A method slower than so many seconds runs for one seed only.")]
Retry = Annotated[bool, Option("--retry", help="Measure again what failed in an earlier run.")]


def evaluate(
    vectors: Annotated[Path, Argument(help="Vectors: .npy, .npz or HDF5, one vector per row.")],
    labels: Annotated[
        Path | None, Option(help="Labels: .npy, one per vector; without, recall of the floats is measured.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Result file (.json) to keep; an unfinished one goes on.")
    ] = None,
    methods: Annotated[str, Option(help="'all', or names with commas between: lsh,cbe,joint.")] = "all",
    bits: Annotated[str, Option("--bits", "-b", help="Code lengths with commas between.")] = "1000,4000",
    k: Annotated[
        str | None, Option("-k", help="Numbers of results, with commas; 50,100 with labels, else 10,50.")
    ] = None,
    seeds: Annotated[int, Option(help="Random splits, each with its own seed.")] = 5,
    first_seed: Annotated[int, Option(help="Seed of the first split, for splits not yet seen.")] = 0,
    queries: Annotated[int | None, Option(help="Queries; 1,000 but at most a tenth if not given.")] = None,
    train: Train = None,
    asymmetric: Annotated[
        bool, Option("--asymmetric", help="Also compare real-valued queries with stored bits.")
    ] = False,
    settings: Set = None,
    slow: Slow = 600.0,
    retry: Retry = False,
    name: Annotated[str | None, Option(help="Name of the data set; that of the file if not given.")] = None,
    dataset: Dataset = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Fit and measure methods on your own data: precision, bytes, training and coding time.

    Random queries, the rest is the gallery, part of it is for training; no method sees the queries before the search.
    With labels, the share of results that have the query's label is measured; without, the share of the floats' own
    nearest neighbours that are found. With --out, results are kept after every cell: the same command goes on where it
    was stopped. A method that fails does not stop the others; its row says why. The exit code is 1 where all failed.
    """
    from projbank.evaluate.data import DataSet
    from projbank.evaluate.results import ResultFile, draw, summarise
    from projbank.evaluate.retrieval import ORIGINAL
    from projbank.evaluate.retrieval import evaluate as run
    from projbank.evaluate.runner import Rules
    from projbank.methods import METHODS
    from projbank.rows.files import open_array, open_vectors

    if seeds < 1:
        raise ValueError(f"--seeds must be at least 1. Got {seeds} instead.")
    if first_seed < 0:
        raise ValueError(f"--first-seed must be at least 0. Got {first_seed} instead.")
    known = None if labels is None else open_array(labels)
    data = DataSet(name or vectors.stem, open_vectors(vectors, dataset), known)
    names = [ORIGINAL, *METHODS] if methods == "all" else [word.strip() for word in methods.split(",")]
    results = ResultFile(out)
    try:
        records = run(
            data,
            names,
            numbers("--bits", bits),
            results,
            params=settings_of(settings),
            rules=Rules(slow, retry),
            verbose=verbosity(quiet, verbose),
            seeds=range(first_seed, first_seed + seeds),
            n_queries=queries,
            n_train=train,
            ks=() if k is None else numbers("-k", k),
            asymmetric=asymmetric,
            n_jobs=jobs,
        )
    except KeyboardInterrupt:
        kept = f"{len(results.records)} cells are in {out}, the same command goes on" if out else "nothing was kept"
        raise KeyboardInterrupt(f"interrupted; {kept}") from None
    used = records[0]["protocol"]
    n_rows, n_dims = data.vectors.shape
    title = (
        f"{data.name}: {n_rows} vectors of {n_dims} dimensions, {used['queries']} queries, "
        f"{n_rows - used['queries']} gallery, {used['training']} training"
    )
    table, notes = draw(summarise(records))
    print(plain(title))
    console().print(table)
    for note in notes:
        print(plain(note))
    exit_if_all_failed(records)


def exit_if_all_failed(records: list[dict[str, Any]]) -> None:
    """Exit with code 1 where no cell has a result, so that a script does not take that for success."""
    if records and all("error" in record for record in records):
        raise typer.Exit(1)


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers of an option, with commas between."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be whole numbers with commas between. Got {text!r} instead.") from None


def settings_of(words: list[str] | None) -> dict[str, dict[str, Any]]:
    """Parameters of methods from ``method.parameter=value``; values are JSON where they can be read as such."""
    from projbank.methods import METHODS

    found: dict[str, dict[str, Any]] = {}
    form = "METHOD.PARAMETER=VALUE with a known method"
    for path, value in read_settings(words, form).items():
        method, _, parameter = path.rpartition(".")
        if method not in METHODS:
            raise ValueError(f"--set must be {form}. Got {path!r} instead.")
        if parameter not in METHODS[method]().get_params():
            raise ValueError(f"--set names no parameter of {method}. Got {parameter!r} instead.")
        found.setdefault(method, {})[parameter] = value
    return found
