"""Codes as files that a server imports: Elasticsearch, OpenSearch and Milvus, each with the mapping that it needs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.bits import check_codes, clear_padding, code_bytes
from projbank.files import atomic_path
from projbank.params import check_choice, check_int
from projbank.search.ids import are_texts, check_ids, check_texts, encode_payload
from projbank.threads import split_rows

ROWS_AT_A_TIME = 4096


class Layout(NamedTuple):
    """How an engine takes codes: most bits, where its schema is written, a code as JSON, and the line(s) of a code."""

    most_bits: int
    schema: Callable[[int, bool], dict[str, Any]]
    value: Callable[[NDArray[np.uint8]], str]
    line: Callable[[str, int | str, str, str | None], str]


def _elastic_schema(n_bits: int, named: bool) -> dict[str, Any]:
    code = {"type": "dense_vector", "element_type": "bit", "dims": n_bits, "index": True, "similarity": "l2_norm"}
    return {"mappings": {"properties": {"code": code, "payload": {"type": "object", "enabled": False}}}}


def _opensearch_schema(n_bits: int, named: bool) -> dict[str, Any]:
    method = {"name": "hnsw", "engine": "faiss"}
    code = {
        "type": "knn_vector",
        "dimension": n_bits,
        "data_type": "binary",
        "space_type": "hamming",
        "method": method,
    }
    return {
        "settings": {"index": {"knn": True}},
        "mappings": {"properties": {"code": code, "payload": {"type": "object", "enabled": False}}},
    }


def _milvus_schema(n_bits: int, named: bool) -> dict[str, Any]:
    key = {"dataType": "VarChar", "elementTypeParams": {"max_length": "65535"}} if named else {"dataType": "Int64"}
    fields = [
        {"fieldName": "id", "isPrimary": True, **key},
        {"fieldName": "code", "dataType": "BinaryVector", "elementTypeParams": {"dim": str(n_bits)}},
        {"fieldName": "payload", "dataType": "JSON", "nullable": True},
    ]
    index = {"fieldName": "code", "metricType": "HAMMING", "indexName": "code", "params": {"index_type": "BIN_FLAT"}}
    return {"schema": {"autoId": False, "enabledDynamicField": False, "fields": fields}, "indexParams": [index]}


def _bulk(name: str, number: int | str, code: str, payload: str | None) -> str:
    """Two lines, as the bulk interface of Elasticsearch and OpenSearch takes them."""
    action = json.dumps({"index": {"_index": name, "_id": str(number)}}, ensure_ascii=False)
    more = "" if payload is None else f', "payload": {{"value": {payload}}}'
    return f'{action}\n{{"code": {code}{more}}}\n'


def _row(name: str, number: int | str, code: str, payload: str | None) -> str:
    """One line with all fields, as Milvus imports it."""
    more = "" if payload is None else f', "payload": {payload}'
    return f'{{"id": {json.dumps(number, ensure_ascii=False)}, "code": {code}{more}}}\n'


def _hexadecimal(code: NDArray[np.uint8]) -> str:
    return f'"{code.tobytes().hex()}"'


def _signed(code: NDArray[np.uint8]) -> str:
    return json.dumps(code.view(np.int8).tolist())


def _unsigned(code: NDArray[np.uint8]) -> str:
    return json.dumps(code.tolist())


EXPORTS: dict[str, Layout] = {
    "elasticsearch": Layout(4096 * 8, _elastic_schema, _hexadecimal, _bulk),
    "opensearch": Layout(16_000, _opensearch_schema, _signed, _bulk),
    "milvus": Layout(262_144, _milvus_schema, _unsigned, _row),
}
"""Engine to its layout."""


def export(
    engine: str,
    path: str | os.PathLike[str],
    codes: ArrayLike,
    ids: ArrayLike | None = None,
    payload: Iterable[Any] | None = None,
    *,
    n_bits: int | None = None,
    name: str = "codes",
    force: bool = False,
) -> tuple[Path, Path]:
    """Write codes as a file that an engine imports, and the schema that it needs beside it.

    Parameters
    ----------
    engine : "elasticsearch", "opensearch" or "milvus"
    path : file to write; the schema gets its name with ".schema.json" at the end
    codes : uint8 (n, ceil(n_bits / 8))
    ids : int64 (n,) or list of str, optional
    payload : list, optional
        A small JSON value per code.
    n_bits : length of a code; by default 8 times its bytes
        The engines know whole bytes: other lengths are padded with zeros, which change no distance.
    name : index or collection
    force : replace files of another kind

    Returns
    -------
    path, schema : Path
    """
    layout = EXPORTS[check_choice("export", "engine", engine, tuple(EXPORTS))]
    array = check_codes(codes, n_bits)
    n_bits = 8 * array.shape[1] if n_bits is None else check_int("export", "n_bits", n_bits, 1)
    whole = 8 * code_bytes(n_bits)
    if whole > layout.most_bits:
        raise ValueError(f"{engine} takes codes of at most {layout.most_bits} bits. Got {n_bits} bits.")
    named = ids is not None and are_texts(ids)
    own: list[int] | list[str] = list(range(len(array)))
    if ids is not None:
        own = check_texts(ids, len(array)) if named else check_ids(ids, len(array)).tolist()  # type: ignore[arg-type]
    texts = None if payload is None else encode_payload(payload, len(array))
    target = Path(path)
    schema = target.with_name(target.name + ".schema.json")
    with (
        atomic_path(target, kind="JSON file", force=force) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        for start, stop in split_rows(len(array), ROWS_AT_A_TIME):
            rows = np.ascontiguousarray(clear_padding(array[start:stop], n_bits))
            file.writelines(
                layout.line(name, own[i], layout.value(code), None if texts is None else texts[i])
                for i, code in enumerate(rows, start)
            )
    with atomic_path(schema, kind="JSON file", force=force) as temporary:
        temporary.write_text(json.dumps(layout.schema(whole, named), indent=1) + "\n", encoding="utf-8")
    return target, schema
