"""What the README shows must run as printed; files of the names it uses are made first."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in README.splitlines() if re.match(r"    \S", line)]
PROJBANK = [line for line in COMMANDS if line.startswith("projbank ")]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with everything that the README's commands name."""
    import cv2

    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    kinds = np.append(np.arange(20), rng.integers(0, 20, 580))  # codes of a kind may agree: the first of it is found
    X = rng.standard_normal((20, 3000))[kinds] + rng.standard_normal((600, 3000))
    np.save(folder / "vectors.npy", X.astype(np.float32))
    np.save(folder / "queries.npy", X[:5].astype(np.float32))
    (folder / "Photos").mkdir()
    for i in range(40):
        picture = cv2.resize(rng.integers(0, 255, (6, 6, 3), dtype=np.uint8), (128, 96), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / "Photos" / f"{i}.jpg"), picture)
    shutil.copy(folder / "Photos" / "3.jpg", folder / "beach.jpg")
    return folder


def environment(folder):
    return os.environ | {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(line, folder):
    done = subprocess.run(line, shell=True, cwd=folder, env=environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def test_every_command_is_run_here_or_by_ci():
    others = [line for line in COMMANDS if line not in PROJBANK]
    ci = (ROOT / ".ci" / "run").read_text()
    assert "pip install --quiet . && projbank demo" in ci
    for line in others:
        assert line.startswith("pip install "), line
        for extras in re.findall(r"\[([\w,]+)\]", line):
            known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            assert set(extras.split(",")) <= set(known)


def test_cells(home):
    anndata = pytest.importorskip("anndata")
    import scipy.sparse as sp

    counts = sp.random(300, 1200, density=0.1, format="csr", dtype=np.float32, random_state=0)
    counts.data = np.ceil(counts.data * 9)
    anndata.AnnData(counts).write_h5ad(home / "cells.h5ad")
    for line in PROJBANK:
        if "cells.h5ad" in line:
            run(line, home)
    assert anndata.read_h5ad(home / "coded.h5ad").obsm["X_projbank"].shape == (300, 64)


def test_files_of_vectors(home):
    lines = [line for line in PROJBANK if re.search(r"vectors\.npy|codes\.npy|index\.pbi", line)]
    assert [line.split()[1] for line in lines] == ["fit", "encode", "index", "search", "check"]
    found = [run(line, home) for line in lines][3]
    assert [line.split()[2] for line in found.splitlines()[1::10]] == ["0", "1", "2", "3", "4"]


def test_photos(home):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("uvicorn")
    lines = [line for line in PROJBANK if "~/Photos" in line]
    assert [line.split()[1] for line in lines] == ["album", "find", "serve"]
    run(lines[0], home)
    assert run(lines[1], home).splitlines()[0].endswith("3.jpg")
    words = [*lines[2].replace("~", str(home)).split(), "--port", "0"]
    with subprocess.Popen(words, cwd=home, env=environment(home), stdout=subprocess.PIPE, text=True) as server:
        assert "http://127.0.0.1:" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
    assert server.returncode in (0, 130)


def test_the_python_example_runs(home):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(code.strip().splitlines()) <= 12
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True, check=True)
    assert 0.7 < float(done.stdout.split()[0]) <= 1
