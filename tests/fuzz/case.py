"""What a format of the fuzzer is."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.mutate import mutate


@dataclass
class Format:
    """A file, how it is used, and whether it can tell every damage (then an answer must be the right one)."""

    name: str
    content: bytes
    use: Callable[[Path], Any]
    checked: bool | Callable[[Path], bool]
    change: Callable[[bytes, np.random.Generator], bytes] = mutate
    suffix: str = ""
    reserves: bool = False
    """Whether its library asks for memory that it then does not use; what is used is measured then."""


def of_folder(name, folder, target, use, *, checked, reserves=False):
    """One file of a folder, which `use` is given whole; `folder` is left as it is."""
    case = folder.with_name(f"{folder.name} case")

    def used(path):
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(folder, case)
        shutil.copyfile(path, case / target)
        return use(case)

    return Format(f"{name}: {target}", (folder / target).read_bytes(), used, checked, reserves=reserves)
