"""Very long vectors to medium-length binary codes in one pass, and what was lost, measured."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # importing `typing` takes its time, in which Ctrl-C would not be one line
if TYPE_CHECKING:
    from typing import Any

    from projbank.album import Album
    from projbank.bank import ProjectionBank
    from projbank.kernel_bank import KernelProjectionBank
    from projbank.models.file import ModelFileError, load
    from projbank.neighbors import HammingNeighbors
    from projbank.search import HammingIndex
    from projbank.upkeep.check import check

__version__ = "0.2.0"
__all__ = [
    "Album",
    "HammingIndex",
    "HammingNeighbors",
    "KernelProjectionBank",
    "ModelFileError",
    "ProjectionBank",
    "check",
    "load",
]

_PLACES = {
    "Album": "album",
    "HammingIndex": "search",
    "HammingNeighbors": "neighbors",
    "KernelProjectionBank": "kernel_bank",
    "ModelFileError": "models.file",
    "ProjectionBank": "bank",
    "check": "upkeep.check",
    "load": "models.file",
}
"""Public name to the module it stands in, which is imported when the name is first used."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
