"""Results of a search as a table, CSV or JSON lines, and the lists of ids and values that commands read."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from projbank.cli.outputs import output_file

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Format(StrEnum):
    """Names of the output formats."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"


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
    from projbank.files import input_file

    try:
        return input_file(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is no text in UTF-8.") from error
