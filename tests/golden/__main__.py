"""Compare codes with the recorded ones, or record them anew: `python -m tests.golden [--write]`."""

import json
import sys

from tests.golden.cases import cases, digest
from tests.golden.machine import machine
from tests.golden.test_golden import RECORDED


def main():
    found = {name: digest(*case, n_jobs=1) for name, case in cases().items()}
    if "--write" in sys.argv:
        RECORDED.write_text(json.dumps({"machine": machine(), "codes": found}, indent=1) + "\n")
        print(f"{len(found)} recorded")
        return 0
    recorded = json.loads(RECORDED.read_text())
    changed = [name for name in found if recorded["codes"].get(name) != found[name]]
    print(f"{len(found)} cases, {len(changed)} changed: {', '.join(changed) or 'none'}")
    gone = sorted(set(recorded["codes"]) - set(found))
    if gone:
        print(f"gone: {', '.join(gone)}")
    return int(bool(changed))


sys.exit(main())
