import sys

import pytest

from projbank.cli import main
from projbank.paper import digits

QUICK = ["--methods", "lsh,bpb", "--set", "bpb.max_iter=2", "--set", "bpb.n_neighbors=5"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder that `projbank reproduce paper --quick` filled, with fewer images and methods."""
    out = tmp_path_factory.mktemp("reproduce") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "N_IMAGES", 170)
        patch.setattr(digits, "COMPONENTS", 2)
        patch.setattr(sys, "argv", ["projbank", "reproduce", "paper", "--quick", "--out", str(out), *QUICK])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return out


@pytest.fixture(scope="session")
def browser():
    pytest.importorskip("fcntl", reason="the browser is driven over a Unix pipe")
    from tests.paper.report.browser import Browser, find_browser

    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on this machine; on Debian: apt-get install chromium")
    one = Browser(program)
    yield one
    one.close()
