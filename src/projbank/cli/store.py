"""`projbank store`: put codes into another engine, or into a file for one, and search there."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from projbank.cli.options import Force, Table, To
from projbank.cli.search import (
    Allow,
    Bits,
    Format,
    Ids,
    Neighbors,
    Output,
    Payload,
    Style,
    read_ids,
    read_payload,
    result_writer,
)

if TYPE_CHECKING:
    from projbank.stores.base import CodeStore


Engine = StrEnum("Engine", ["faiss", "lancedb", "postgres", "sqlite", "elasticsearch", "opensearch", "milvus"])


def store(
    engine: Annotated[Engine, Argument(help="The last three are written as files that the engine imports.")],
    codes: Annotated[
        Path | None, Argument(help="Packed codes to add (.npy), as `projbank encode` writes them.")
    ] = None,
    to: To = "store",
    table: Table = "codes",
    ids: Ids = None,
    payload: Payload = None,
    bits: Bits = None,
    build: Annotated[str | None, Option(help="Make searches approximate by this index: ivf or hnsw.")] = None,
    queries: Annotated[Path | None, Option("--search", help="Packed codes to search for (.npy).")] = None,
    k: Neighbors = 10,
    allow: Allow = None,
    effort: Annotated[int | None, Option(help="Lists visited (ivf) or candidates kept (hnsw) by a search.")] = None,
    format: Style = Format.table,  # noqa: A002
    output: Output = None,
    force: Force = False,
) -> None:
    """Put codes into another engine, and search there.

    Codes are added, then an index is built (--build), then the engine is searched (--search), as far as each is asked
    for.
    """
    from projbank.rows.files import open_array

    if codes is None and build is None and queries is None:
        raise ValueError("Nothing to do: give codes to add, --build, or --search.")
    own, values = read_ids(ids), read_payload(payload)
    if engine.value in ("elasticsearch", "opensearch", "milvus"):
        if codes is None or build is not None or queries is not None:
            raise ValueError(f"{engine.value} is written as a file: give codes, and neither --build nor --search.")
        from projbank.stores import export

        array = open_array(codes)
        written = export(engine.value, to, array, own, values, n_bits=bits, name=table, force=force)
        print(f"{written[0]}: {len(array)} codes; {written[1]}: the schema")
        return
    with open_store(engine, to, table) as opened:
        if codes is not None:
            array = open_array(codes)
            if array.ndim != 2:
                raise ValueError(f"{codes}: codes must be a 2-D array, one code per row. Got shape {array.shape}.")
            existed = opened.exists
            opened.create(8 * array.shape[1] if bits is None else bits)
            try:
                opened.add(array, own, values)
            except (ValueError, TypeError):
                if not existed:
                    opened.drop()
                raise
            print(f"{to}: {len(array)} codes added, {opened.count()} in all")
        if build is not None:
            opened.build_index(build)
            print(f"{to}: index {build} built")
        if queries is not None:
            distances, found = opened.search(open_array(queries), k, allow=read_ids(allow), effort=effort)
            with result_writer(output, format, "distance", (queries, allow), force, opened.payload) as write:
                write(0, distances, found)


def open_store(engine: Engine, to: str, table: str) -> CodeStore:
    """Open a store; an engine that is written as a file has none."""
    from projbank import stores

    if engine is Engine.faiss:
        return stores.FaissStore(to)
    if engine is Engine.lancedb:
        return stores.LanceStore(to, table)
    if engine is Engine.sqlite:
        return stores.SqliteStore(to, table)
    return stores.PostgresStore(to, table)
