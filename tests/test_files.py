import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from projbank import HammingIndex, ProjectionBank, load
from projbank.files import atomic_path, replace_folder
from projbank.integrity import input_file
from projbank.kinds import kind_of


def test_the_target_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.bin"
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file_and_no_rest(tmp_path, error):
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")

    def fail():
        with atomic_path(target) as temporary:
            temporary.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_places_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a directory"), atomic_path(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="there is no folder"), atomic_path(tmp_path / "no" / "x"):
        pass


def test_usual_permissions(tmp_path):
    with atomic_path(tmp_path / "a") as temporary:
        temporary.write_bytes(b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("how", ["same", "relative", "dots", "symlink", "hard link", "folder link"])
def test_an_output_is_no_input_by_whatever_name(tmp_path, how, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "a.npy"
    source.write_bytes(b"precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "symlink").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "here").symlink_to(tmp_path)
    names = {
        "same": source,
        "relative": "a.npy",
        "dots": "folder/../a.npy",
        "symlink": "symlink",
        "hard link": "hard",
        "folder link": "here/a.npy",
    }
    with pytest.raises(ValueError, match="it is the input"), atomic_path(names[how], inputs=[None, source], force=True):
        pass
    assert source.read_bytes() == b"precious"


KINDS = {
    "model": lambda path: ProjectionBank(2, solver="random").fit(np.eye(4)).save(path),
    "codes": lambda path: np.save(path, np.zeros((2, 3), np.uint8)),
    "vectors": lambda path: np.save(path, np.zeros((2, 3))),
    "labels": lambda path: np.save(path, np.zeros(3, int)),
    "array": lambda path: np.save(path, np.zeros((3, 3, 3))),
    "zip archive": lambda path: np.savez(path, np.zeros(3)),
    "index": lambda path: HammingIndex(np.zeros((2, 3), np.uint8)).save(path),
    "picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n"),
    "results": lambda path: path.write_text("query,rank,id,distance\n"),
    "JSON file": lambda path: path.write_text('{"a": 1}'),
    "text": lambda path: path.write_text("Dear diary, ä\n"),
    "file of unknown kind": lambda path: path.write_bytes(bytes(range(256))),
}


def make(kind, path):
    with open(path, "wb"):
        pass
    if kind == "zip archive" or kind in ("codes", "vectors", "labels", "array"):
        with open(path, "wb") as file:
            KINDS[kind](file)
    else:
        KINDS[kind](path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_kept(tmp_path, kind):
    path = tmp_path / "x"
    make(kind, path)
    assert kind_of(path) == kind
    content = path.read_bytes()
    other = "codes" if kind != "codes" else "vectors"
    with pytest.raises(FileExistsError, match=f"another kind \\({kind}, not {other}\\)"), atomic_path(path, kind=other):
        pass
    assert path.read_bytes() == content
    for arguments in ({"kind": kind}, {"kind": other, "force": True}, {}):
        with atomic_path(path, **arguments) as temporary:
            temporary.write_bytes(content)
    path.write_bytes(b"")
    with atomic_path(path, kind=other):
        pass
    assert os.listdir(tmp_path) == ["x"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "real")
    with atomic_path(tmp_path / "link") as temporary:
        temporary.write_bytes(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real").read_bytes() == b"new"


def test_pipes_are_neither_read_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe or a device"), atomic_path(tmp_path / "pipe"):
        pass
    with pytest.raises(OSError, match="is a pipe or a device"):
        input_file(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a pipe or a device"):
        load(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\x7f"])
def test_names_with_control_characters_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="control characters"), atomic_path(tmp_path / name):
        pass
    assert not os.listdir(tmp_path)


def test_no_room_is_told_before_the_work(tmp_path, full_disk):
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    words = r"out\.bin: .*: 2,000 bytes are needed, [\d,]+ are free"
    with full_disk(1000), pytest.raises(OSError, match=words), atomic_path(target, size=2000):
        raise AssertionError("too late")
    with pytest.raises(OSError, match="bytes are needed"), atomic_path(target, size=2**62):
        raise AssertionError("too late")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_a_disk_that_fills_up_is_told_with_the_files_name(tmp_path, full_disk):
    def write():
        with atomic_path(tmp_path / "out.csv") as temporary, open(temporary, "wb", buffering=0) as file:
            for _ in range(3000):
                file.write(b"x" * 10)

    with full_disk(1000), pytest.raises(OSError, match=r"out\.csv: no room.* bytes are needed"):
        write()
    assert not os.listdir(tmp_path)


def test_what_dead_processes_left_is_removed_and_nothing_else(tmp_path):
    """A file of the same pattern that a living process holds stays; so do those of other outputs."""
    code = "import os, sys; from projbank.files import atomic_path; c = atomic_path('out'); c.__enter__(); "
    subprocess.run([sys.executable, "-c", code + "os._exit(9)"], cwd=tmp_path, check=False)
    assert len(os.listdir(tmp_path)) == 1
    for name in (".other.00112233.part", ".out.part", "out.00112233.part"):
        (tmp_path / name).touch()
    with subprocess.Popen(
        [sys.executable, "-c", code + "print('ready', flush=True); sys.stdin.read(); os._exit(9)"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline()
        with atomic_path(tmp_path / "out") as temporary:
            temporary.write_bytes(b"new")
        assert len(os.listdir(tmp_path)) == 5  # out, three of others, one that is held
        holder.communicate(b"")
    with atomic_path(tmp_path / "out") as temporary:
        temporary.write_bytes(b"newer")
    assert sorted(os.listdir(tmp_path)) == [".other.00112233.part", ".out.part", "out", "out.00112233.part"]


def test_an_output_within_an_output(tmp_path):
    """A command opens its output, and what saves itself there opens it again."""
    with atomic_path(tmp_path / "out", kind="codes") as temporary:
        with atomic_path(temporary, kind="model") as inner:
            assert inner == temporary
            inner.write_bytes(b"new")
        assert os.listdir(tmp_path) == [temporary.name]
    assert (tmp_path / "out").read_bytes() == b"new"


@pytest.mark.parametrize("can_swap", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path, monkeypatch, can_swap):
    if not can_swap:
        monkeypatch.setattr(ctypes, "CDLL", lambda _: None)
    new, old = tmp_path / ".store.part", tmp_path / "store"
    for _ in range(2):  # with and without a folder that is replaced
        new.mkdir()
        (new / "a").write_text("new")
        replace_folder(new, old)
        assert [path.name for path in tmp_path.iterdir()] == ["store"]
        assert [path.name for path in old.iterdir()] == ["a"]
        (old / "a").rename(old / "b")
