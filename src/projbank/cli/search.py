"""`projbank index` and `projbank search`: from codes to an index file, and from queries to written results."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

from typer import Argument, Option

from projbank.cli.options import Cluster, Dataset, Force, FromObsm, Jobs, Layer, Metric, Normalize, Reading, output_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUERIES_PER_BATCH = 1024

Bits = Annotated[int | None, Option("--bits", "-b", help="Bits per code; 8 times the bytes if not given.")]
Ids = Annotated[Path | None, Option(help="Own ids: numbers (.npy), or a text file, one per line.")]
Payload = Annotated[Path | None, Option(help="Kept beside the codes: a file with one JSON value per line.")]
Allow = Annotated[Path | None, Option(help="Find only these ids: numbers (.npy), or a text file, one per line.")]
Neighbors = Annotated[int, Option("-k", help="Neighbours per query.")]
Format = StrEnum("Format", ["table", "csv", "jsonl"])
Style = Annotated[Format, Option(help="How results are written.")]
Output = Annotated[Path | None, Option("--output", "-o", help="File for the results; standard output if not given.")]


def index(
    codes: Annotated[Path, Argument(help="Packed codes: .npy of dtype uint8, as `projbank encode` writes them.")],
    output: Annotated[Path, Option("--output", "-o", help="Index file to write (.pbi).")],
    ids: Ids = None,
    payload: Payload = None,
    bits: Bits = None,
    recall: Annotated[
        float | None, Option(help="Searches find this part of the neighbours, and look at less than all codes.")
    ] = None,
    append: Annotated[bool, Option("--append", help="Add the codes to the index that is there.")] = False,
    jobs: Jobs = None,
    force: Force = False,
) -> None:
    """Put a file of codes into an index file, or add them to one."""
    from projbank.integrity import read_note
    from projbank.rows.files import open_array
    from projbank.search import HammingIndex

    own, values, array = read_ids(ids), read_payload(payload), open_array(codes)
    note = read_note(codes) or {}
    made_by = note.get("made_by")
    if append:
        if bits is not None or recall is not None:
            raise ValueError("--bits and --recall are for a new index; with --append they are those of the file.")
        from projbank.integrity import check_made_by

        built = HammingIndex.load(output)
        if made_by is not None or built.made_by is not None:
            mend = f"encode with the bank of the index, or code the index anew: projbank recode BANK VECTORS {output}"
            comparable = note.get("comparable", ())
            check_made_by(str(output), built.made_by, str(codes), made_by, mend, comparable)
        built.add(array, own, values).save()
    else:
        with output_file(output, "index", (codes, ids, payload), force) as temporary:
            built = HammingIndex(
                array,
                ids=own,
                n_bits=bits or note.get("n_bits"),
                payload=values,
                made_by=made_by,
                recall=recall,
                n_jobs=jobs,
            )
            built.save(temporary)
    print(f"{output}: {len(built)} codes of {built.n_bits} bits")


def search(
    index: Annotated[
        Path, Argument(help="Index file (see `projbank index`), or a folder of .pbi files, searched as one.")
    ],
    queries: Annotated[
        Path, Argument(help="Queries: codes (.npy, uint8), margins (.npy, floats), or with --bank vectors.")
    ],
    k: Neighbors = 10,
    bank: Annotated[Path | None, Option(help="Model file of the bank that codes the queries' vectors.")] = None,
    row: Annotated[int | None, Option(help="Search for this row of the queries only, counted from 0.")] = None,
    asymmetric: Annotated[
        bool, Option("--asymmetric", help="Compare real-valued margins with the stored bits.")
    ] = False,
    allow: Allow = None,
    max_distance: Annotated[int | None, Option(help="Find nothing at a larger Hamming distance.")] = None,
    query_bits: Annotated[int, Option(help="Bits to which margins are rounded, 2 to 8.")] = 4,
    rerank: Annotated[
        str | None,
        Option(help="Second stage: 'asymmetric', or a file of the gallery's vectors, row = id.", metavar="FILE"),
    ] = None,
    query_vectors: Annotated[
        Path | None, Option(help="The queries' vectors, for --rerank FILE where the queries are codes.")
    ] = None,
    metric: Annotated[Metric, Option(help="Distance between vectors, for --rerank FILE.")] = Metric.l2,
    shortlist: Annotated[int | None, Option(help="Candidates of the second stage; 10 k if not given.")] = None,
    format: Style = Format.table,  # noqa: A002
    output: Output = None,
    force: Force = False,
    dataset: Dataset = None,
    layer: Layer = None,
    from_obsm: FromObsm = None,
    normalize: Normalize = None,
    cluster: Cluster = None,
    jobs: Jobs = None,
) -> None:
    """Find the nearest codes of each query."""
    from projbank.search import HammingIndex

    reading = Reading(dataset, layer, from_obsm, normalize)
    shards = sorted(index.glob("*.pbi")) if index.is_dir() else [index]
    if not shards:
        raise FileNotFoundError(f"{index}: has no index files (.pbi).")
    opened = HammingIndex.load(shards if len(shards) > 1 else shards[0])
    source = _open_queries(queries, bank, opened.n_bits, asymmetric or rerank == "asymmetric", reading, jobs)
    if source.made_by is not None or opened.made_by is not None:
        from projbank.integrity import check_made_by

        again = f"projbank recode {bank or 'BANK'} VECTORS {index}"
        mend = f"search with the bank that made the codes, or code them anew: {again}"
        check_made_by(str(index), opened.made_by, str(bank or queries), source.made_by, mend, source.comparable)
    first, stop = _rows(source.n_queries, row)
    gallery = None if rerank in (None, "asymmetric") else reading.open(Path(rerank))
    vectors = None if gallery is None else _open_query_vectors(query_vectors, source, reading)
    value_name = "score" if source.are_margins and gallery is None else "distance"
    sources = (index, queries, bank, rerank, query_vectors)
    allowed = read_ids(allow)
    if cluster is not None and rerank is not None:
        raise ValueError("--cluster searches in one stage: give no --rerank.")
    with contextlib.ExitStack() as stack:
        searcher: Any = opened
        if cluster is not None:
            from projbank import cluster as dask

            searcher = dask.ClusterIndex(shards, stack.enter_context(dask.cluster(cluster)))
        write = stack.enter_context(result_writer(output, format, value_name, sources, force, opened.payload))
        for start in range(first, stop, QUERIES_PER_BATCH):
            end = min(start + QUERIES_PER_BATCH, stop)
            values, ids = searcher.search(
                source.read(start, end),
                k,
                allow=allowed,
                max_distance=max_distance,
                query_bits=query_bits,
                rerank=rerank if gallery is None else gallery,
                query_vectors=None if vectors is None else vectors.block(start, end),
                metric=metric.value,
                shortlist=shortlist,
                n_jobs=jobs,
            )
            write(start, values, ids)


class _Queries(NamedTuple):
    """Queries that are read, and coded if need be, batch by batch."""

    n_queries: int
    are_margins: bool
    read: Callable[[int, int], NDArray[Any]]
    vectors: Any
    made_by: str | None
    comparable: tuple[str, ...] = ()
    """Other identities that go together with it."""


def _open_queries(
    path: Path, bank: Path | None, n_bits: int, as_margins: bool, reading: Reading, jobs: int | None
) -> _Queries:
    if bank is None:
        from projbank.integrity import open_npy

        points, note = open_npy(path)
        are_margins = points.dtype.kind == "f"
        if points.ndim != 2:
            raise ValueError(f"{path}: queries must be a 2-D array, one query per row. Got shape {points.shape}.")
        if as_margins and not are_margins:
            raise ValueError(
                f"{path}: asymmetric search needs margins (floats), or vectors and --bank. Got {points.dtype}."
            )
        made_by = (note or {}).get("made_by")
        return _Queries(len(points), are_margins, lambda start, stop: points[start:stop], None, made_by)
    from projbank.methods.nearest import query_codes, query_values
    from projbank.models.file import load
    from projbank.rows.source import as_rows
    from projbank.rows.views import RowRange

    loaded, X = load(bank), reading.open(path)
    model = getattr(loaded, "bank", loaded)  # one that describes pictures carries a bank
    reading.check(path, X, bank, model)
    if model.n_bits_ != n_bits:
        raise ValueError(f"{bank}: makes codes of {model.n_bits_} bits, but the index holds codes of {n_bits} bits.")
    model.set_params(n_jobs=jobs, verbose=0)
    code = partial(query_values if as_margins else query_codes, model)
    rows = as_rows(X)
    comparable = (model.identity(), *getattr(model, "comparable_", ()))
    return _Queries(
        X.shape[0],
        as_margins,
        lambda start, stop: code(RowRange(rows, start, stop)),
        X,
        loaded.identity(),  # that of describer and bank, where pictures were coded straight
        comparable,
    )


def _open_query_vectors(path: Path | None, source: _Queries, reading: Reading) -> Any:
    from projbank.rows.source import as_rows

    vectors = source.vectors if path is None else reading.open(path)
    if vectors is None:
        raise ValueError("--rerank FILE needs the queries' vectors: give --bank, or --query-vectors.")
    if vectors.shape[0] != source.n_queries:
        raise ValueError(f"{path}: has {vectors.shape[0]} vectors for {source.n_queries} queries.")
    return as_rows(vectors)


def _rows(n_queries: int, row: int | None) -> tuple[int, int]:
    if row is None:
        return 0, n_queries
    if not 0 <= row < n_queries:
        raise ValueError(f"--row must be in the range [0, {n_queries - 1}]. Got {row} instead.")
    return row, row + 1


@contextlib.contextmanager
def result_writer(
    output: Path | None,
    style: Format,
    value_name: str,
    inputs: Iterable[Path | str | None],
    force: bool,
    payload: Callable[[list[Any]], list[Any]] | None = None,
) -> Iterator[Callable[[int, NDArray[Any], NDArray[Any]], None]]:
    """Give a function that writes the results of a batch; a file appears whole or not at all.

    Places for which nothing was found are left out. JSON lines have the payload of what was found, where there is any.
    """
    with contextlib.ExitStack() as stack:
        file: TextIO = sys.stdout
        if output is not None:
            temporary = stack.enter_context(output_file(output, "results", inputs, force))
            file = stack.enter_context(open(temporary, "w", newline="", encoding="utf-8"))
        table = csv.writer(file, lineterminator="\n")
        is_first = True

        def write(start: int, values: NDArray[Any], ids: NDArray[Any]) -> None:
            nonlocal is_first  # the header is written with the first results, so that bad input prints nothing
            if is_first and style is Format.csv:
                table.writerow(["query", "rank", "id", value_name])
            elif is_first and style is Format.table:
                file.write(f"{'query':>10} {'rank':>6} {'id':>20} {value_name:>12}\n")
            is_first = False
            for query, (row, places) in enumerate(zip(values.tolist(), ids.tolist(), strict=True), start):
                found = [(ident, value) for ident, value in zip(places, row, strict=True) if ident not in (-1, None)]
                if style is Format.jsonl:
                    own = [ident for ident, _ in found]
                    line: dict[str, Any] = {"query": query, "ids": own, f"{value_name}s": [one for _, one in found]}
                    beside = payload(own) if payload is not None else []
                    if any(one is not None for one in beside):
                        line["payload"] = beside
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                    continue
                for rank, (ident, value) in enumerate(found, 1):
                    if style is Format.csv:
                        table.writerow([query, rank, ident, f"{value:.9g}"])
                    else:
                        file.write(f"{query:>10} {rank:>6} {ident:>20} {value:>12.7g}\n")

        yield write


def read_ids(path: Path | None) -> Any:
    """Ids of a file: numbers (.npy), or texts, one per line; None without one."""
    if path is None:
        return None
    if path.suffix == ".npy":
        from projbank.rows.files import open_array

        return open_array(path)
    return _lines(path)


def read_payload(path: Path | None) -> list[Any] | None:
    """One JSON value per line of a file; None without one."""
    if path is None:
        return None
    values = []
    for number, line in enumerate(_lines(path), 1):
        try:
            values.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}: line {number} is no JSON value ({error}).") from error
    return values


def _lines(path: Path) -> list[str]:
    from projbank.integrity import input_file

    try:
        return input_file(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is no text in UTF-8.") from error
