"""`projbank features` as a user runs it: interrupted, killed and taken up again, and with mistakes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from projbank.cli import main
from tests.features.media_files import picture, picture_folder, write_picture, write_video, zip_of

COMMAND = [sys.executable, "-c", "from projbank.cli import main; main()"]
SMALL = ["--components", "3", "--set", "bin_sizes=3,4", "--jobs", "1"]


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process; give its exit code and what it printed."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["projbank", "features", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return picture_folder(tmp_path_factory.mktemp("pictures") / "data", 2, 30)


def test_writes_vectors_labels_files_and_codebook(run, data, tmp_path):
    code, out, err = run(data, "-o", tmp_path / "vectors.npy", *SMALL)
    assert (code, err) == (0, "")
    assert "60 vectors of 768 dimensions" in out
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "vectors.npy",
        "labels.npy",
        "files.txt",
        "classes.txt",
        "record.jsonl",
        "vectors.codebook.safetensors",
    }
    archive = zip_of(data, tmp_path / "q.zip")
    codebook = tmp_path / "vectors.codebook.safetensors"
    assert run(archive, "-o", tmp_path / "q.npy", "--codebook", codebook, "--exclude", "class0", "-j", "1")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "q.npy"), np.load(tmp_path / "vectors.npy")[30:])
    np.testing.assert_array_equal(np.load(tmp_path / "q.labels.npy"), np.full(30, 1))
    same = ["--kind", "fv", "--set", "bin_sizes=3,4", "--descriptor", "dense-sift", "-j", "1"]
    assert run(archive, "-o", tmp_path / "q.npy", "--codebook", codebook, *same)[0] == 0
    code, _, err = run(archive, "-o", tmp_path / "r.npy", "--codebook", codebook, "--kind", "vlad")
    assert code == 2
    assert "vectors.codebook.safetensors: was made with kind=fv. Got kind=vlad; leave it out" in err


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_goes_on_after_being_stopped(run, data, tmp_path, sent):
    args = [*COMMAND, "features", str(data), "-o", str(tmp_path / "v.npy"), *SMALL]
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        journal = tmp_path / "v.npy.partial" / "journal.jsonl"
        limit = time.monotonic() + 100
        while time.monotonic() < limit and process.poll() is None:
            if journal.exists() and journal.stat().st_size > 0:
                process.send_signal(sent)
                break
            time.sleep(0.001)
        errors = process.communicate(timeout=60)[1]
    if process.returncode == 0:
        pytest.skip("the run was over before it could be stopped")
    assert not (tmp_path / "v.npy").exists()
    assert process.returncode == (130 if sent == signal.SIGINT else -signal.SIGKILL)
    assert ("the same command goes on from here" in errors) == (sent == signal.SIGINT)
    n_done = len(journal.read_text().splitlines())
    code, _, err = run(data, "-o", tmp_path / "v.npy", *SMALL, "-v")
    assert code == 0
    assert f"resuming: {n_done} of 60 files are done" in err
    assert run(data, "-o", tmp_path / "w.npy", *SMALL)[0] == 0
    assert (tmp_path / "v.npy").read_bytes() == (tmp_path / "w.npy").read_bytes()


def test_videos_take_trajectories_without_asking(run, tmp_path):
    for i in range(2):
        write_video(tmp_path / "data" / "run" / f"{i}.avi", i)
    assert run(tmp_path / "data", "-o", tmp_path / "vectors.npy", "--kind", "vlad", "-k", "2", "-j", "1")[0] == 0
    assert np.load(tmp_path / "vectors.npy").shape == (2, 2 * 426)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["nowhere", "-o", "v.npy"], "nowhere: no such file or folder"),
        (["{data}", "-o", "v.txt"], "must be a path that ends in .npy"),
        (["{data}", "-o", "v.npy", "--set", "bin_sizes=3;4"], "'bin_sizes' parameter of DenseSIFT must be a tuple"),
        (["{data}", "-o", "v.npy", "--split", "train"], "'split' parameter must be one that"),
        (
            ["{data}", "-o", "v.npy", "--descriptor", "trajectories"],
            "holds images, but the descriptor is one of videos",
        ),
        (["{data}", "-o", "v.npy", "--codebook", "x"], "x: no such file"),
    ],
)
def test_errors_are_one_line(run, data, tmp_path, monkeypatch, args, text):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*[arg.format(data=data) for arg in args])
    assert code == 2
    assert err.startswith("projbank: error: ")
    assert text in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_rerun_describes_only_what_is_new(run, tmp_path):
    data = picture_folder(tmp_path / "data", 2, 3)
    output = tmp_path / "V.npy"
    assert run(data, "-o", output, *SMALL)[0] == 0
    old, codebook = np.load(output), (tmp_path / "V.codebook.safetensors").stat().st_size
    for i in range(5):
        write_picture(data / "class0" / f"000{i}.png", 50 + i)
    code, out, _ = run(data, "-o", output, *SMALL)
    assert (code, out.splitlines()[0]) == (0, "5 new files; codebook kept")
    np.testing.assert_array_equal(np.load(output)[:6], old)
    names = (tmp_path / "V.files.txt").read_text().splitlines()
    assert names[6:] == [f"class0/000{i}.png" for i in range(5)]
    assert run(data, "-o", output)[1].startswith("0 new files; codebook kept")
    code, _, err = run(data, "-o", output, "-k", "4")
    assert (code, "V.codebook.safetensors: was made with components=3. Got components=4" in err) == (2, True)
    assert run(data, "-o", output, "-k", "4", "--relearn")[0] == 0
    assert np.load(output).shape == (11, 4 * 256)
    assert (tmp_path / "V.files.txt").read_text().splitlines() == sorted(names)
    assert (tmp_path / "V.codebook.safetensors").stat().st_size > codebook


@pytest.fixture(scope="module")
def slow_run(tmp_path_factory):
    """Words of a command that takes a while."""
    folder = tmp_path_factory.mktemp("slow")
    for i in range(300):
        path = folder / "data" / "a" / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(cv2.imencode(".png", picture(i, 240))[1].tobytes())
    words = ["features", str(folder / "data"), "-k", "20", "--set", "step=2", "--sample", "3", "--on-error", "skip"]
    return [*COMMAND, *words, "-o"]


def wait_for_rows(process, output):
    journal = output.with_name(output.name + ".partial") / "journal.jsonl"
    limit = time.monotonic() + 100
    while time.monotonic() < limit and process.poll() is None:
        if journal.exists() and journal.stat().st_size > 0:
            return
        time.sleep(0.005)
    pytest.fail("the run was over, or never began")


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_workers_end_when_the_command_is_killed(slow_run, tmp_path):
    with subprocess.Popen([*slow_run, tmp_path / "v.npy", "-j", "2"], stderr=subprocess.DEVNULL) as process:
        wait_for_rows(process, tmp_path / "v.npy")
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        process.kill()
    assert len(children) >= 2
    limit = time.monotonic() + 20
    while any(map(is_running, children)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(map(is_running, children))


def test_two_runs_at_once_are_told_apart_and_a_crash_leaves_no_lock(slow_run, run, data, tmp_path):
    output = tmp_path / "v.npy"
    with subprocess.Popen([*slow_run, output, "-j", "1"], stderr=subprocess.DEVNULL) as process:
        wait_for_rows(process, output)
        code, _, err = run(data, "-o", output, *SMALL)
        process.kill()
    assert code == 2
    assert err.endswith("v.npy: another run is writing it; wait until it has ended.\n")
    assert run(data, "-o", output, *SMALL, "--restart")[0] == 0
    assert not (tmp_path / "v.npy.partial").exists()


def test_names_with_markup_do_not_break_the_summary(run, tmp_path):
    data = picture_folder(tmp_path / "[/b] data", 1, 3)
    write_picture(data / "[/red]" / "[/b].png", 9)
    (data / "[/red]" / "[/i].png").write_bytes(b"broken")
    code, out, err = run(data, "-o", tmp_path / "[/b].npy", *SMALL, "--on-error", "skip", "-v")
    assert code == 0
    assert "[/b].npy: 4 vectors" in out
    assert "skipped [/red]/[/i].png" in err


@pytest.mark.parametrize("words", [["{pipe}"], ["{data}", "--codebook", "{pipe}"]])
def test_a_pipe_is_an_error_at_once(run, data, tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    words = [word.format(pipe=tmp_path / "pipe", data=data) for word in words]
    code, _, err = run(*words, "-o", tmp_path / "v.npy")
    assert code == 2
    assert "pipe" in err
    assert err.count("\n") == 1


def test_a_flat_folder_is_told(run, tmp_path):
    for i in range(3):
        write_picture(tmp_path / "data" / f"{i}.png", i)
    assert "no labels: the files lie flat" in run(tmp_path / "data", "-o", tmp_path / "v.npy", *SMALL)[1]
