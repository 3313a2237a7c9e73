"""What kind of file stands under a name, told by its first and last bytes: one of another kind is not replaced."""

from __future__ import annotations

import json
import re
from pathlib import Path

_LOOK_AT = 4096
_CODEBOOKS = ("FeatureExtractor", "FisherVector", "VLAD")
_PICTURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_RESULTS = re.compile(rb'query,rank,id,|\s*query +rank +id |\{"query": ')
MADE = re.compile(rb'\nprojbank \{[^\n]*"kind": ?"([a-z]+)"[^\n]*\n\Z')
"""The note behind the numbers of a `.npy` file (see `projbank.integrity`)."""


def kind_of(path: Path) -> str:
    """Return a word or two for a file: "model", "codes", "vectors", "picture"; "" for an empty one."""
    with open(path, "rb") as file:
        head = file.read(_LOOK_AT)
        file.seek(max(0, file.seek(0, 2) - _LOOK_AT))
        tail = file.read(_LOOK_AT)
    if not head:
        return ""
    if head.startswith(b"\x93NUMPY"):
        return _kind_of_array(head, tail)
    if head[8:9] == b"{":
        return _kind_of_tensors(path)
    if head.startswith(b"PK"):
        return "zip archive"
    if head.startswith(b"\x89HDF"):
        return "HDF5 file"
    if head.startswith(b"PAR1"):
        return "parquet file"
    if head.startswith(_PICTURES):
        return "picture"
    if _RESULTS.match(head):
        return "results"
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON file"
    text = b"\0" not in head and not head.decode("utf-8", "replace")[:-4].count("\ufffd")
    return "text" if text else "file of unknown kind"


def looks_like(path: Path) -> str:
    """Return what to add to the news that a file is not what it should be: " (kind of file: vectors)", or nothing."""
    kind = kind_of(path)
    known = kind and kind not in ("file of unknown kind", "safetensors file")
    return f" (kind of file: {kind})" if known else ""


def _kind_of_array(head: bytes, tail: bytes) -> str:
    noted = MADE.search(tail)
    if noted:
        return noted.group(1).decode()
    found = re.search(rb"'descr': *'[<>|=]?([a-zA-Z])(\d*)'.*'shape': *\(([^)]*)\)", head)
    if found is None:
        return "array"
    letter, size, shape = found.groups()
    n_axes = sum(bool(length.strip()) for length in shape.split(b","))
    if n_axes == 2 and (letter, size) == (b"u", b"1"):
        return "codes"
    if n_axes == 2:
        return "vectors"
    return "labels" if n_axes == 1 and letter in b"iu" else "array"


def _kind_of_tensors(path: Path) -> str:
    """A safetensors file: eight bytes of length, then a JSON header."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            metadata = json.loads(file.read(min(length, 1 << 20)))["__metadata__"]
            name, made = metadata["format"], metadata.get("class")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return "safetensors file"
    if name == "projbank-index":
        return "index"
    if name != "projbank":
        return "safetensors file"
    return "codebook" if made in _CODEBOOKS else "model"
