import sys
import warnings

import pytest

from projbank.cli import main


@pytest.fixture
def projbank(monkeypatch, capsys):
    """Run the command line in this process; returns exit code, stdout and stderr."""

    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() sets its own: undo it afterwards

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["projbank", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out, said.err

    return run
