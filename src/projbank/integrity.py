"""Checksums of content, and identities: short names of what made codes, so that only what belongs together meets.

Every model and codebook has an identity, ``"ProjectionBank:3f0c..."``: its class, and 16 hexadecimal digits over the
arrays that its output depends on. What it makes (vectors, codes, an index) carries that string as `made_by`. Equal
identities give equal output; another seed, another training set or another codebook gives another identity, and
`check_made_by` compares them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

_warned: set[str] = set()


class IdentityError(ValueError):
    """Two things do not belong together: codes and a bank that did not make them, vectors and another codebook."""


class DamageError(ValueError):
    """A file does not hold what was written to it."""


@contextmanager
def told(path: Path | str, kind: str) -> Iterator[None]:
    """Say in one line what a library of a file format can't read."""
    try:
        yield
    except DamageError:
        raise
    except Exception as error:  # such libraries raise whatever they like on damaged bytes
        text = " ".join(str(error).split()) or type(error).__name__
        raise DamageError(f"{path}: damaged {kind} ({text:.200}).") from error


def checksum(*parts: bytes | memoryview | NDArray[Any]) -> str:
    """Checksum of bytes and arrays one after another: XXH3 of 64 bits, 16 hexadecimal digits.

    It runs at the speed of memory and finds damage; it is no protection against forgery.
    """
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(_bytes(part))
    return digest.hexdigest()


def checksum_blocks(blocks: Iterable[bytes | memoryview | NDArray[Any]]) -> str:
    """Checksum of blocks that come one by one, equal to that of all of them at once."""
    digest = xxhash.xxh3_64()
    for block in blocks:
        digest.update(_bytes(block))
    return digest.hexdigest()


def identity(kind: str, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any] | None = None) -> str:
    """Identity of a model or a codebook: ``"kind:"`` and 16 hexadecimal digits.

    Parameters
    ----------
    kind : name of the class
    arrays : what was learnt, by name; names, types, shapes and numbers count, the order in the mapping does not
    settings : JSON values that the output depends on beside the arrays (not: threads, verbosity)
    """
    names = sorted(arrays)
    shapes = [[name, arrays[name].dtype.newbyteorder("<").str, list(arrays[name].shape)] for name in names]
    head = json.dumps([kind, shapes, dict(settings or {})], sort_keys=True, separators=(",", ":"))
    values = (arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False) for name in names)
    return f"{kind}:{checksum(head.encode(), *values)}"


def check_made_by(
    subject: str,
    made_by: str | None,
    tool: str,
    tool_identity: str | None,
    mend: str,
    comparable: Collection[str] = (),
) -> None:
    """Raise IdentityError where `subject` was made by something else than `tool`; warn once where that is unknown.

    Parameters
    ----------
    subject : what is to be used, as the user knows it: ``"index.pbi"``
    made_by : the identity it carries, or None
    tool : what it is to be used with: ``"bank.safetensors"``
    tool_identity : the tool's own identity, or None
    mend : what the user can do: ``"search with the bank that made the codes, or encode and index again"``
    comparable : other identities that go together with the tool (earlier versions whose codes were kept comparable)
    """
    if made_by is None or tool_identity is None:
        lacking = subject if made_by is None else tool
        warn_once(
            "identity",
            f"{lacking}: carries no note of what made it; whether {subject} and {tool} belong together is not known.",
        )
    elif made_by != tool_identity and made_by not in comparable:
        raise IdentityError(f"{subject}: was made by {made_by}, but {tool} is {tool_identity}; {mend}.")


def warn_once(topic: str, message: str) -> None:
    """Give a warning the first time that its topic comes up in a process."""
    if topic not in _warned:
        _warned.add(topic)
        warnings.warn(message, UserWarning, stacklevel=3)


def _bytes(part: bytes | memoryview | NDArray[Any]) -> Any:
    if isinstance(part, np.ndarray):
        return np.ascontiguousarray(part).reshape(-1).view(np.uint8).data if part.size else b""
    return part
