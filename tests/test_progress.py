import io
import sys

from projbank.progress import progress, say


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_are_for_terminals(monkeypatch):
    for stream, verbose, shown in ((Terminal(), 1, True), (Terminal(), 0, False), (io.StringIO(), 1, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("counting sheep", 3, verbose) as advance:
            for _ in range(3):
                advance(1)
        assert ("counting sheep" in stream.getvalue()) is shown


def test_say(capsys):
    say("one line", 1)
    say("another", 0)
    assert capsys.readouterr() == ("", "one line\n")
