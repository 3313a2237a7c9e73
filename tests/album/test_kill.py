"""An update that is killed at any moment loses nothing, and the next one ends with the same album."""

import shutil
import subprocess
import sys

import pytest

from projbank.album import Album, learn, update
from tests.album.photos import folder_of, write_scene
from tests.album.test_album import state

KILLED = """
import os, signal, sys
from projbank.album import Album, update
update.AT_ONCE = 4

def report(stage, done, total):
    if stage == "describing" and done == 13:
        os.kill(os.getpid(), signal.SIGKILL)

Album(sys.argv[1], n_jobs=1).update(report=report)
"""


class Stop(BaseException):
    """Ends an update on the spot, as a kill does; what was not committed is lost."""


def change(root):
    """What happened to the folder since the album was made."""
    folder_of(root, 20, start=200)
    (root / "0" / "000.jpg").rename(root / "moved.jpg")
    (root / "1" / "001.jpg").unlink()
    write_scene(root / "2" / "002.jpg", 700)


def codes_of(root):
    album = Album(root)
    found, problems, identity = state(album)
    album.close()
    return {path: row[2] for path, row in found.items()}, problems, identity


@pytest.mark.parametrize("relearn", [False, True])
def test_stopped_updates_end_with_the_same_album(made, tmp_path, monkeypatch, relearn):
    monkeypatch.setattr(update, "AT_ONCE", 4)
    monkeypatch.setattr(learn, "MOST", 20)
    whole, n_events = tmp_path / "whole", [0]
    shutil.copytree(made, whole)
    change(whole)

    def count(*_):
        n_events[0] += 1

    Album(whole, n_jobs=1).update(relearn=relearn, report=count)
    expected = codes_of(whole)
    for stop in sorted({1, n_events[0] // 2, n_events[0] * 3 // 4, n_events[0]}):
        root, left = tmp_path / str(stop), [stop]
        shutil.copytree(made, root)
        change(root)

        def report(*_, left=left):
            left[0] -= 1
            if not left[0]:
                raise Stop

        album = Album(root, n_jobs=1)
        with pytest.raises(Stop):
            album.update(relearn=relearn, report=report)
        hits = album.find(root / "2" / "005.jpg", k=100)
        assert hits[0].path == "2/005.jpg"
        assert len({hit.path for hit in hits}) == len(hits)
        assert all((root / hit.path).exists() for hit in hits)
        album.update(relearn=relearn and album.store.model().version == 1 and album.store.unfinished() is None)
        album.close()
        assert codes_of(root) == expected


def test_a_killed_process_loses_nothing(made, tmp_path):
    roots = [tmp_path / name for name in ("whole", "killed")]
    for root in roots:
        shutil.copytree(made, root)
        change(root)
    Album(roots[0], n_jobs=1).update()
    assert subprocess.run([sys.executable, "-c", KILLED, roots[1]]).returncode == -9
    done = Album(roots[1], n_jobs=1).update()
    assert 0 < done.described < 21
    assert codes_of(roots[1]) == codes_of(roots[0])


def test_one_writer_at_a_time_and_no_lock_is_left_behind(made, tmp_path):
    root = tmp_path / "photos"
    shutil.copytree(made, root)
    folder_of(root, 4, start=300)
    held, album = [], Album(root, n_jobs=1)

    def report(stage, done, total):
        if not held:
            with pytest.raises(BlockingIOError, match="another process is updating this album"):
                Album(root).update()
            held.append(stage)

    album.update(report=report)
    assert held
    script = (
        "import pathlib, sys, time\n"
        "from projbank.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1]) / '.projbank' / 'lock', ''):\n"
        "    print(1, flush=True)\n"
        "    time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script, root], stdout=subprocess.PIPE)
    run.stdout.readline()
    with pytest.raises(BlockingIOError):
        album.update()
    run.kill()
    run.communicate()
    album.update()
