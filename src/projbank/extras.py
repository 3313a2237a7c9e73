"""What is optional, and the command that brings it."""

from __future__ import annotations


def install(extra: str) -> str:
    """Return the command that installs an extra; it works in a clone of the repository."""
    return f"pip install '.[{extra}]' in the clone of projbank"
