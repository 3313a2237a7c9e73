"""`projbank encode`: from a model and vectors, pictures or videos to codes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from projbank.cli import options
from projbank.cli.media import code_media


def encode(
    bank: Annotated[Path, Argument(help="Model file of a bank, or of any method of projbank.methods.")],
    vectors: Annotated[
        Path,
        Argument(
            help="Vectors, one per row: .npy, .npz, HDF5, .h5ad, zarr, parquet, Arrow, or a folder of such; "
            "or pictures or videos, for a bank learnt from such."
        ),
    ],
    output: Annotated[
        Path, Option("--output", "-o", help="File to write: .npy, .parquet, .zarr, or .h5ad with --obsm.")
    ],
    margins: Annotated[bool, Option("--margins", help="Write float32 margins instead of packed bits.")] = False,
    on_error: options.Unreadable = options.OnError.fail,
    force: options.Force = False,
    dataset: options.Dataset = None,
    layer: options.Layer = None,
    from_obsm: options.FromObsm = None,
    normalize: options.Normalize = None,
    obsm: Annotated[
        str | None, Option(help="Write a copy of the AnnData file or store with the codes in obsm, by this name.")
    ] = None,
    id_column: Annotated[
        str | None, Option(help="Column of a parquet file that goes with the codes to a parquet file.")
    ] = None,
    cluster: options.Cluster = None,
    jobs: options.Jobs = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = 0,
) -> None:
    """Code a file of vectors; the file is read in blocks, so it may be larger than memory.

    Pictures and videos are described and coded one by one; beside the codes stand the names of the files. Where codes
    go to a .npy file, a run that was cut off goes on when the same command is given again.
    """
    import numpy as np

    from projbank.base import RowCoder
    from projbank.features.coder import MediaCoder
    from projbank.features.listing import is_media
    from projbank.models.file import load
    from projbank.sinks import Output

    model = load(bank)
    if isinstance(model, MediaCoder):
        if is_media(vectors):
            if cluster is not None:
                raise ValueError("--cluster is for vectors. Got pictures or videos.")
            if margins:
                raise ValueError("--margins is for vectors. Got pictures or videos.")
            code_media(model, bank, vectors, output, on_error, force, jobs, options.verbosity(quiet, verbose))
            return
        model = model.bank
    elif is_media(vectors):
        raise ValueError(f"{bank}: codes vectors, not {vectors}; learn a bank from it: projbank fit {vectors}")
    if not isinstance(model, RowCoder):
        raise ValueError(f"{bank}: holds a {type(model).__name__}, which does not code vectors.")
    if margins and not hasattr(model, "decision_function"):
        raise ValueError(f"{bank}: holds a {type(model).__name__}, which has no margins.")
    _check_style(vectors, output, obsm, id_column)
    reading = options.Reading(dataset, layer, from_obsm, normalize)
    X = reading.open(vectors)
    reading.check(vectors, X, bank, model)
    real = margins or getattr(model, "distance", "hamming") == "l2"
    width, dtype = (model.n_bits_ if margins else model._n_features_out), np.dtype(np.float32 if real else np.uint8)
    kind = "margins" if margins else "vectors" if real else "codes"
    note: dict[str, Any] = {"kind": kind, "made_by": model.identity()}
    note |= {} if kind == "vectors" else {"n_bits": model.n_bits_}
    if getattr(model, "comparable_", ()):
        note["comparable"] = list(model.comparable_)
    made = Output(output, (X.shape[0], width), dtype, note, (bank, vectors), force, str(reading))
    model.set_params(n_jobs=jobs, verbose=options.verbosity(quiet, verbose))
    try:
        with options.naming(vectors), ExitStack() as stack:
            if cluster is not None:
                from projbank import cluster as dask

                X = reading.on_cluster(vectors, stack.enter_context(dask.cluster(cluster)))
            _write(model, X, made, vectors, obsm, id_column, margins)
    except KeyboardInterrupt:
        again = "; the same command goes on from there" if output.suffix.lower() == ".npy" else ""
        raise KeyboardInterrupt(f"interrupted; {output} was not written{again}") from None
    what = f"margins of {model.n_bits_} bits" if margins else "codes"
    print(f"{output}: {X.shape[0]} {what}, {width * dtype.itemsize} bytes each")


def _write(
    model: Any, X: Any, made: Any, vectors: Path, obsm: str | None, id_column: str | None, margins: bool
) -> None:
    """Code rows part by part."""
    from projbank.progress import progress, say
    from projbank.rows.source import as_rows
    from projbank.sinks import cells_sink, npy_sink, parquet_sink, zarr_sink

    style, n_done = made.path.suffix.lower(), 0
    with ExitStack() as stack:
        if style == ".parquet":
            from projbank.rows.parquet import read_column

            ids = None if id_column is None else read_column(vectors, id_column)
            write = stack.enter_context(parquet_sink(made, ids, id_column or "id"))
        elif style == ".zarr":
            write = stack.enter_context(zarr_sink(made, None if obsm is None else vectors, obsm))
        elif style == ".h5ad":
            write = stack.enter_context(cells_sink(made, vectors, str(obsm)))
        else:
            write, n_done = stack.enter_context(npy_sink(made))
        rows, verbose = as_rows(X), model.verbose
        say(f"resuming: {n_done} of {rows.shape[0]} rows are done", n_done)
        model.set_params(verbose=0)
        advance = stack.enter_context(progress("coding", rows.shape[0], verbose, done=n_done))
        for start, stop in rows.bounds(rows.part_bytes):
            if stop > n_done:
                start = max(start, n_done)
                part = rows.part(start, stop)
                write(start, model.decision_function(part) if margins else model.transform(part))
                advance(stop - start)


def _check_style(vectors: Path, output: Path, obsm: str | None, id_column: str | None) -> None:
    """Raise where the options do not go with the kind of output."""
    style, source = output.suffix.lower(), vectors.suffix.lower()
    if style == ".h5ad" and (obsm is None or source != ".h5ad"):
        raise ValueError(f"{output}: codes go to AnnData files by --obsm NAME, from an .h5ad file. Got {vectors}.")
    if obsm is not None and (style, source) not in ((".h5ad", ".h5ad"), (".zarr", ".zarr")):
        raise ValueError(f"--obsm copies an .h5ad file to one, or a .zarr store. Got {vectors} and {output}.")
    if id_column is not None and style != ".parquet":
        raise ValueError(f"--id-column is for codes in a .parquet file. Got {output}.")
