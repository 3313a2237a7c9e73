"""The house stays one that can be lived in: imports flow one way, and no module is too long to read."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "projbank"
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 400
FLOORS = [
    {"bits", "extras", "params", "threads", "progress", "kinds"},
    {"files", "unpacker"},
    {"integrity"},
    {"tensorfile", "unfinished"},
    {"kernels", "sinks"},
    {"rows"},
    {"models"},
    {"learn"},
    {"base"},
    {"bank", "kernel_bank"},
    {"search", "metrics"},
    {"cluster", "neighbors"},
    {"stores", "features", "text"},
    {"methods", "upkeep"},
    {"evaluate"},
    {"paper", "album"},
    {"cli"},
]
"""What a room may import stands on a floor above it in this list, or is the room itself."""
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


def imported(path):
    """Rooms of the package that a module imports, in its functions, too."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "projbank":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {
                (alias.name + ".").split(".")[1] for alias in node.names if alias.name.split(".")[0] == "projbank"
            }
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_too_long(path):
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent != SOURCE or path.stem in FLOOR], ids=name_of)
def test_imports_flow_one_way(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    against = {other for other in imported(path) if other != room and FLOOR.get(other, 0) >= FLOOR[room]}
    assert not against


def test_every_room_has_its_floor():
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__", "__main__"}
    assert rooms == set(FLOOR) & rooms


def test_the_first_moment_is_short():
    """Before `main` catches Ctrl-C nothing is imported that takes its time."""
    code = "import sys; before = set(sys.modules); import projbank.cli; print(sorted(set(sys.modules) - before))"
    environment = {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert set(ast.literal_eval(done.stdout)) <= {"__future__", "importlib", "projbank", "projbank.cli", "warnings"} | {
        "_warnings",
        "importlib._bootstrap",
        "importlib._bootstrap_external",
    }
