"""The command line: one module per family of commands, all registered in `app`."""

from projbank.cli.app import app, main

__all__ = ["app", "main"]
