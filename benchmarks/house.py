"""How much of the house does a call pass through? Files entered, functions entered, modules loaded; start-up times.

    python -m benchmarks.house

Calls are traced in fresh processes, the second time that each is made: `ProjectionBank().fit(X)`, `transform`, and
`projbank search` of one row. Start-up times are ratios to a fresh process that imports NumPy.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import report, result_path, row, write_result

TRACE = """
import json, sys, threading
seen, own = set(), {own!r}
def enter(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(own):
        seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))
def run():
    try:
        {call}
    except SystemExit:
        pass
{before}
run()  # modules are imported and kernels compiled
threading.setprofile(enter)
sys.setprofile(enter)
run()
sys.setprofile(None)
modules = [name for name in sys.modules if name.partition(".")[0] == "projbank"]
found = dict(files=sorted({{path[len(own):] for path, _ in seen}}), functions=len(seen), modules=len(modules))
print(json.dumps(found), file=sys.stderr)
"""
FIT = "import numpy as np; from projbank import ProjectionBank; X = np.random.default_rng(0).random((300, 2048), 'f4')"
SEARCH = "import projbank.cli; sys.argv = ['projbank', 'search', {index!r}, '--row', '0', "
CALLS = {
    "fit": (f"{FIT}; bank = ProjectionBank(128)", "bank.fit(X)", {"files": 10}),
    "transform": (f"{FIT}; bank = ProjectionBank(128).fit(X)", "bank.transform(X)", {}),
    "search of one code": (SEARCH + "{codes!r}]", "projbank.cli.main()", {"files": 12, "modules": 40}),
    "search of one vector": (SEARCH + "{queries!r}, '--bank', {bank!r}]", "projbank.cli.main()", {}),
}
PREPARE = """
import numpy as np, sys
from projbank import HammingIndex, ProjectionBank
X = np.random.default_rng(0).random((300, 2048), "f4")
bank = ProjectionBank(128, solver="random").fit(X)
np.save(sys.argv[1], X)
bank.save(sys.argv[2])
HammingIndex(bank.transform(X), n_bits=128).save(sys.argv[3])
np.save(sys.argv[4], bank.transform(X))
"""


def traced(before: str, call: str) -> dict[str, object]:
    import projbank

    own = str(Path(projbank.__file__).parent) + "/"
    code = TRACE.format(own=own, before=before, call=call)
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return json.loads(run.stderr.splitlines()[-1])


def seconds(*arguments: str) -> float:
    """Best time of a fresh process."""
    best = float("inf")
    for _ in range(9):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    path = result_path("house")
    rows, details = [], {}
    with tempfile.TemporaryDirectory() as folder:
        places = {
            name: str(Path(folder) / name) for name in ("queries.npy", "bank.safetensors", "index.pbi", "codes.npy")
        }
        subprocess.run([sys.executable, "-c", PREPARE, *places.values()], check=True)
        names = {name.partition(".")[0]: place for name, place in places.items()}
        for name, (before, call, most) in CALLS.items():
            details[name] = found = traced(before.format(**names) if "{" in before else before, call)
            rows.append(row(f"{name}: files entered", len(found["files"]), most=most.get("files")))  # type: ignore[arg-type]
            rows.append(row(f"{name}: functions entered", found["functions"]))  # type: ignore[arg-type]
            rows.append(row(f"{name}: modules loaded", found["modules"], most=most.get("modules")))  # type: ignore[arg-type]
    numpy = seconds("-c", "import numpy")
    rows.append(row("import projbank / import numpy", seconds("-c", "import projbank") / numpy, most=1.3))
    rows.append(row("projbank --help / import numpy", seconds("-m", "projbank", "--help") / numpy, most=4.5))
    report(rows)
    write_result(path, {"calls": details, "ratios": rows})


if __name__ == "__main__":
    main()
