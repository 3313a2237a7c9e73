"""`projbank features` as a user runs it: interrupted, killed and taken up again, and with mistakes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from projbank.cli import main
from tests.features.media_files import picture_folder, write_video, zip_of

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
