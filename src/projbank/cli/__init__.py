"""The command line: projbank demo | fit | encode | info."""

from projbank.cli.app import app, main

__all__ = ["app", "main"]
