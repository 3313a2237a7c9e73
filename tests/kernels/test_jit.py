"""Compilation happens at first use, and its result is cached wherever a place can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import projbank

CODE = """
import numpy as np
from projbank.kernels.nearest import merge_nearest
d, i = np.full((1, 1), np.inf, np.float32), np.full((1, 1), 9)
merge_nearest(np.zeros((1, 1), np.float32), np.zeros(1), np.ones(1), 0, 1, d, i)
print(i[0, 0], d[0, 0])
"""


def run(code, **environment):
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def package_without_cache_folder(tmp_path):
    """A copy of the package in which no cache can be written: a file stands where the cache folder would be."""
    copy = tmp_path / "site" / "projbank"
    shutil.copytree(Path(projbank.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "kernels" / "__pycache__").write_text("in the way")
    return copy.parent


def test_import_compiles_nothing_and_loads_no_heavy_library():
    code = """
import sys
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import projbank, projbank.cli
heavy = ("faiss", "cv2", "matplotlib", "h5py", "lancedb", "psycopg")
print(len(recorder.buffer), [name for name in heavy if name in sys.modules])
"""
    assert run(code) == "0 []"


def test_cache_goes_to_the_user_folder_when_the_package_is_read_only(tmp_path):
    site = package_without_cache_folder(tmp_path)
    cache = tmp_path / "cache"
    environment = {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cache), "HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    code = f"import projbank; assert projbank.__file__.startswith({str(site)!r})" + CODE
    assert run(code, **environment) == "1 1.0"
    stored = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*merge_nearest*.nbc")}
    assert stored
    assert not any(path.is_relative_to(site) for path in stored)
    assert run(code, **environment) == "1 1.0"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*merge_nearest*.nbc")} == stored


def test_kernels_work_where_nothing_can_be_written(tmp_path):
    site = package_without_cache_folder(tmp_path)
    blocked = tmp_path / "blocked"
    blocked.write_text("not a folder")
    environment = {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(blocked), "HOME": str(blocked), "NUMBA_CACHE_DIR": ""}
    assert run(CODE, **environment) == "1 1.0"
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_cache_is_compiled_anew(tmp_path, kind):
    """As a crash of the machine may leave it."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(CODE, **environment) == "1 1.0"
    (path,) = tmp_path.rglob(f"*merge_nearest*.{kind}")
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = [whole[:middle], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]]
    for content in damaged:
        path.write_bytes(content)
        assert run(CODE, **environment) == "1 1.0"
        assert len(path.read_bytes()) == len(whole)
