"""`projbank info`: what a model, an index, a file of codes or a file of vectors holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from projbank.cli.options import AsJson
from projbank.progress import console, plain

_LOOK_AT = 1000
"""Rows that the statistics of a large file are taken from."""


def info(
    path: Annotated[Path, Argument(help="A model file, an index, a file of codes or a file of vectors.")],
    dataset: Annotated[str | None, Option(help="Name of the array inside an .npz or HDF5 file.")] = None,
    verify: Annotated[
        bool, Option("--verify", help="Compare every byte with the file's checksum, however large it is.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell what a file holds."""
    facts = describe(path, dataset)
    if verify:
        facts["checksum"] = "agrees" if _verify(path) else "none"
    if as_json:
        print(json.dumps(facts))
        return
    from rich.table import Table

    table = Table(show_header=False, title=plain(path), title_justify="left")
    for name, value in facts.items():
        table.add_row(name, _words(value))
    console().print(table)


def describe(path: Path, dataset: str | None = None) -> dict[str, Any]:
    """Facts about a file, as JSON values."""
    import numpy as np

    from projbank.kinds import kind_of
    from projbank.rows.files import first_bytes, open_array, open_vectors

    head = first_bytes(path)
    if head[8:9] == b"{":  # safetensors: eight bytes of length, then a JSON header
        return _describe_index(path) if kind_of(path) == "index" else _describe_model(path)
    if head.startswith(b"\x93NUMPY"):
        array = open_array(path)
        if array.dtype == np.uint8 and array.ndim == 2 and array.size:
            return _describe_codes(array)
    return _describe_vectors(open_vectors(path, dataset))


def _verify(path: Path) -> bool:
    """Whether the file has checksums; DamageError or IndexFileError where they do not agree."""
    from projbank.integrity import open_npy
    from projbank.kinds import kind_of
    from projbank.models.file import read_metadata
    from projbank.rows.files import first_bytes
    from projbank.search.file import read_index

    head = first_bytes(path)
    if head.startswith(b"\x93NUMPY"):
        return open_npy(path, verify=True)[1] is not None
    if head[8:9] != b"{":
        return False
    if kind_of(path) == "index":
        return read_index(path, everything=True).state.can_grow
    return bool(read_metadata(path)["checked"])  # a model is compared whenever it is read


def _describe_model(path: Path) -> dict[str, Any]:
    from projbank.models.file import load, read_metadata

    metadata = read_metadata(path)
    model = load(path)
    facts: dict[str, Any] = {"kind": "model", "class": metadata["class"], "file version": metadata["version"]}
    for name in ("n_features_in_", "n_bits_"):
        if hasattr(model, name):
            facts[{"n_features_in_": "dimensions", "n_bits_": "bits"}[name]] = int(getattr(model, name))
    if hasattr(model, "group_sizes_"):
        sizes = sorted(model.group_sizes_.tolist())
        facts["group sizes"] = {"least": sizes[0], "median": sizes[len(sizes) // 2], "most": sizes[-1]}
        facts["groups per dimension"] = sum(sizes) // model.n_features_in_
    if len(getattr(model, "loss_curve_", ())):
        facts["loss"] = {"first": float(model.loss_curve_[0]), "last": float(model.loss_curve_[-1])}
    params = {name: value for name, value in metadata["params"].items() if not name.endswith("_")}
    return facts | {"parameters": params, "file bytes": path.stat().st_size}


def _describe_index(path: Path) -> dict[str, Any]:
    from projbank import HammingIndex

    index = HammingIndex.load(path)
    facts = {"kind": "index", "bits": index.n_bits, "codes": len(index), "file bytes": path.stat().st_size}
    if len(index):
        facts["ids"] = {"least": int(index.ids.min()), "most": int(index.ids.max())}
    return facts


def _describe_codes(codes: Any) -> dict[str, Any]:
    import numpy as np

    shares = np.unpackbits(codes[:_LOOK_AT], axis=1, bitorder="little").mean(axis=0)
    return {
        "kind": "codes",
        "codes": codes.shape[0],
        "bytes per code": codes.shape[1],
        "bits, at most": 8 * codes.shape[1],
        "imbalance (mean |P(bit) - 1/2|)": float(np.abs(shares - 0.5).mean()),
        "constant bits, padding included": int(np.sum((shares == 0) | (shares == 1))),
        "statistics from rows": min(_LOOK_AT, codes.shape[0]),
    }


def _describe_vectors(X: Any) -> dict[str, Any]:
    import numpy as np

    from projbank.rows.source import as_rows, check_finite

    n_rows, n_features = X.shape
    rows = as_rows(X).block(0, max(1, min(n_rows, _LOOK_AT, (64 << 20) // (4 * n_features))))
    check_finite(rows)
    norms = np.linalg.norm(rows, axis=1)
    return {
        "kind": "vectors",
        "vectors": int(n_rows),
        "dimensions": int(n_features),
        "type": f"{X.dtype}{', sparse' if hasattr(X, 'nnz') else ''}",
        "bytes per vector": int(n_features * X.dtype.itemsize),
        "length": {"least": float(norms.min()), "mean": float(norms.mean()), "most": float(norms.max())},
        "zeros": float(np.mean(rows == 0)),
        "constant dimensions": int(np.sum((rows == rows[0]).all(axis=0))) if len(rows) > 1 else 0,
        "statistics from rows": len(rows),
    }


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
