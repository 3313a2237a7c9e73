"""What is optional, and the command that brings it."""

from __future__ import annotations

import importlib
from typing import Any


def install(extra: str) -> str:
    """Return the command that installs an extra; it works in a clone of the repository."""
    return f"pip install '.[{extra}]' in the clone of projbank"


def import_extra(module: str, extra: str, what: str = "this store") -> Any:
    """Import a module of an extra, or say what needs it and what brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{what} needs {module.partition('.')[0]}: {install(extra)}.") from error
