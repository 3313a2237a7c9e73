"""The command line: one module per family of commands, imported when it is asked for."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # see projbank/__init__.py
if TYPE_CHECKING:
    from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line. What it needs is imported here, so that Ctrl-C is one line from the first moment."""
    try:
        from projbank.cli.interrupts import insistent_interrupts

        with insistent_interrupts():
            from projbank.cli.app import run

            run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def __getattr__(name: str) -> Any:
    if name == "app":
        from projbank.cli.app import build

        return build()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
