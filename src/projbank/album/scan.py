"""Looking at a folder of photos: which files there are, and which are not photos."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from projbank.album.store import File
from projbank.features.listing import walk
from projbank.features.media import IMAGE_SUFFIXES
from projbank.features.readers import check_name


@dataclass
class Look:
    """What a look at a folder found."""

    files: list[File] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    """Number of files that are no photos, by the ending of their names."""


def look_at(root: Path) -> Look:
    """List the photos below a folder; hidden files and folders are passed over."""
    found = Look()
    for one in walk(root):
        suffix = os.path.splitext(one.file)[1].lower()
        if suffix not in IMAGE_SUFFIXES and not one.problem:
            found.others[suffix or "without ending"] += 1
            continue
        name = one.file.encode("utf-8", "backslashreplace").decode()
        if one.problem:
            found.problems.append((name, one.problem))
            continue
        try:
            check_name(root, one.file)
            status = os.stat(root / one.file)
        except ValueError:
            found.problems.append((name, "has a name with control characters, or one that is not UTF-8"))
        except OSError as error:
            found.problems.append((name, f"can't be read ({error.strerror or error})"))
        else:
            found.files.append(File(one.file, status.st_size, status.st_mtime_ns))
    return found
