"""What is killed: commands, and changes of an index, on folders with and without earlier outputs."""

import contextlib
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from projbank import HammingIndex
from projbank.cli import main
from projbank.models.file import load
from projbank.stores import FaissStore, SqliteStore
from projbank.upkeep import recode


def files_in(folder):
    """Names and bytes of all files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


cv2.setNumThreads(0)  # a child would wait for the threads of its parent's OpenCV for ever


@dataclass
class Scenario:
    """A change of a folder; `prepare` fills the folder before it, `run` makes it, in that folder."""

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[], None]
    grows: dict[str, Callable[[Path], bool]] = field(default_factory=dict)
    """Files that have good states between the old and the new one, and what tells whether one is good."""
    view: Callable[[Path], dict[str, Any]] = files_in
    """What must be the same however often the work was killed."""
    is_good: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], bool] | None = None
    """Whether a kill left a good state, where that can't be told file by file; gets the views: found, before, after."""
    has_threads: bool = False
    """Its engine starts threads, which a fork does not have: nothing of it is done in the parent."""


def command(*words):
    """Run the command line in this process."""

    def run():
        sys.argv = ["projbank", *words]
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                raise

    return run


FIT = ("-b", "24", "-k", "5", "--set", "max_iter=5", "-q")
FEATURES = (
    "features",
    "pictures",
    "-o",
    "v.npy",
    "--kind",
    "vlad",
    "-k",
    "3",
    "--set",
    "bin_sizes=4,6",
    "--sample",
    "4",
)
N_VECTORS, APPENDED = 3000, 40


def scenarios():
    """All of them."""
    fit = command("fit", "x.npy", "-o", "bank", "--seed", "1", *FIT)
    encode = command("encode", "bank", "x.npy", "-o", "codes.npy", "-q")
    margins = command("encode", "bank", "x.npy", "-o", "codes.npy", "-q", "--margins")
    index = command("index", "codes.npy", "-o", "index.pbi", "-b", "24")
    album = command("album", "pictures", "--describer", "sift", "-b", "64", "-j", "1", "-q")
    describe = command(*FEATURES, "-j", "2", "-q")
    zarr = command("encode", "bank", "x.npy", "-o", "codes.zarr", "--force", "-q")
    renewed = command("fit", "x.npy", "-o", "renewed", "--seed", "3", *FIT)
    coded = _after(_vectors, fit, encode, index, renewed)
    return [
        Scenario("fit", _vectors, fit),
        Scenario("fit again", _after(_vectors, command("fit", "x.npy", "-o", "bank", "--seed", "2", *FIT)), fit),
        Scenario("encode", _after(_vectors, fit), encode),
        Scenario("encode again", _after(_vectors, fit, encode, _other_vectors), encode),
        Scenario("margins", _after(_vectors, fit), margins),
        Scenario("index", _after(_vectors, fit, encode), index),
        Scenario("index again", _after(_vectors, fit, encode, index, _other_vectors, encode), index),
        Scenario("append to an index", _after(_vectors, fit, encode, index), _append, {"index.pbi": _is_between}),
        Scenario("store", _after(_vectors, fit, encode), _store, {"store/index.faiss": _is_store}),
        Scenario("SQLite store", _after(_vectors, fit, encode), _fill_sqlite, view=sqlite_view, is_good=_is_part),
        Scenario(
            "recode a SQLite store", _after(coded, _fill_sqlite), _recode_sqlite, view=sqlite_view, is_good=_is_one
        ),
        Scenario("LanceDB store", _some_codes, _fill_lance, view=lance_view, is_good=_is_part, has_threads=True),
        Scenario("recode", coded, _recode("codes.npy")),
        Scenario("recode an index", coded, _recode("index.pbi")),
        Scenario("zarr again", _after(_vectors, fit, zarr, _other_vectors), zarr, view=zarr_view, is_good=_is_one),
        Scenario("album", _pictures, album, view=album_view, is_good=_is_album),
        Scenario("album again", _after(_pictures, album, _more_pictures), album, view=album_view, is_good=_is_album),
        Scenario("features", _pictures, describe),
        Scenario("features again", _after(_pictures, describe, _more_pictures), describe),
    ]


def _after(prepare, *runs):
    def prepared(folder):
        prepare(folder)
        for run in runs:
            run()

    return prepared


def _vectors(folder):
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((N_VECTORS, 96)).astype(np.float32))


def _other_vectors():
    np.save("x.npy", np.random.default_rng(1).standard_normal((3500, 96)).astype(np.float32))


def _append():
    """Grow an index step by step; a run after a kill goes on from where the file is."""
    index = HammingIndex.load("index.pbi")
    for step in range((len(index) - N_VECTORS) // 10, APPENDED):
        index.add(_appended()[step])
        index.save("index.pbi")


def _is_between(path):
    """Whether an index holds the first so many steps, whole."""
    codes = HammingIndex.load(path).codes[N_VECTORS:]
    return len(codes) % 10 == 0 and np.array_equal(codes.reshape(-1, 10, 3), _appended()[: len(codes) // 10])


def _appended():
    return np.random.default_rng(3).integers(0, 256, (APPENDED, 10, 3), np.uint8)


def _store():
    with FaissStore("store") as store:
        store.create(24)
        if not store.count():
            store.add(np.load("codes.npy"))


def _is_store(path):
    return FaissStore(path.parent).count() in (0, N_VECTORS)


def _fill(store):
    """Add in batches what is not there yet, from an add that was killed."""
    done = store.create(24).count()
    codes = np.load("codes.npy")
    store.add(codes[done:], payload=[f"code {i}" for i in range(done, len(codes))], batch_rows=100)


def _fill_sqlite():
    with SqliteStore("codes.db") as store:
        _fill(store)


def _recode_sqlite():
    recode.BLOCK_BYTES = 4 * 96 * 200
    with SqliteStore("codes.db") as store:
        recode.recode_store(load("renewed"), np.load("x.npy"), store, Path(".codes.db.recoding"))


def sqlite_view(folder):
    """Rows of the store, and the names of all files."""
    found = dict.fromkeys(files_in(folder), True)
    if "codes.db" not in found:
        return found
    with contextlib.closing(sqlite3.connect(folder / "codes.db")) as sql:
        if sql.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return {"damaged": True}
        if sql.execute("SELECT 1 FROM sqlite_master WHERE name = 'codes'").fetchone():
            found |= {row[0]: row[1:] for row in sql.execute("SELECT id, code, payload FROM codes")}
    return found


def _some_codes(folder):
    codes = np.random.default_rng(4).integers(0, 256, (N_VECTORS, 3), np.uint8)
    np.save(folder / "codes.npy", codes)


def _fill_lance():
    from projbank.stores import LanceStore

    _fill(LanceStore("lance"))


def lance_view(folder):
    """Rows of the store; names of its files are drawn at random."""
    import lancedb

    database = lancedb.connect(folder / "lance")
    if "codes" not in database.list_tables().tables:
        return {}
    rows = database.open_table("codes").to_arrow().to_pylist()
    return {row["id"]: (tuple(row["code"]), row["payload"]) for row in rows}


def zarr_view(folder):
    """The store, and what stands beside it."""
    found = files_in(folder)
    store = {name: content for name, content in found.items() if name.startswith("codes.zarr")}
    return {name: content for name, content in found.items() if name not in store} | {"store": store}


def _rows_of(view):
    return {name: value for name, value in view.items() if isinstance(name, int) or name == "store"}


def _is_part(found, old, new):
    """Whether a store holds whole batches, from the first one on, and nothing else."""
    found, whole = _rows_of(found), _rows_of(new)
    return len(found) % 100 == 0 and found == {number: whole[number] for number in range(len(found))}


def _is_one(found, old, new):
    """Whether a store is the old or the new one, not something in between."""
    return _rows_of(found) in (_rows_of(old), _rows_of(new))


def _recode(target):
    run = command("recode", "renewed", "x.npy", target, "-q")

    def run_in_blocks():
        recode.BLOCK_BYTES = 4 * 96 * 200
        run()

    return run_in_blocks


def album_view(folder):
    """Photos, their contents and codes, as the album's index has them, and the files of the album."""
    root = folder / "pictures"
    found = {name: content for name, content in files_in(root).items() if not name.startswith(".projbank")}
    index = root / ".projbank" / "album.sqlite"
    if not index.exists():
        return found
    with contextlib.closing(sqlite3.connect(index)) as sql:
        if sql.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return {"damaged": True}
        if not sql.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'").fetchone():
            return found  # killed before the first table
        rows = sql.execute(
            "SELECT path, hash, state, code, version FROM files JOIN contents ON contents.id = files.content "
            "LEFT JOIN codes ON codes.content = contents.id"
        ).fetchall()
    found |= {f"code {path} {version}": (content, state, code) for path, content, state, code, version in rows}
    for path in sorted((root / ".projbank").rglob("*")):
        if not path.name.startswith("album.sqlite"):
            found[f"file {path.relative_to(root)}"] = path.is_file()
    return found


def _is_album(found, old, new):
    """Whether the index is whole, and what it has of photos is what it had, or will have."""
    of_photos = {name: value for name, value in found.items() if not name.startswith("file ")}
    return all(value in (old.get(name), new.get(name)) or value[2] is None for name, value in of_photos.items())


def _pictures(folder, first=0, last=12):
    (folder / "pictures").mkdir(exist_ok=True)
    for i in range(first, last):
        noise = np.random.default_rng(i).integers(0, 256, (48, 64), np.uint8)
        cv2.imwrite(str(folder / "pictures" / f"{i:02}.png"), cv2.GaussianBlur(noise, (5, 5), 2))


def _more_pictures():
    _pictures(Path(), 12, 20)
