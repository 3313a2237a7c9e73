"""What commands write: never over an input or a file of another kind, always with a note of what made it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from projbank import load
from projbank.integrity import add_note, read_note


@pytest.fixture
def folder(tmp_path, projbank):
    X = np.random.default_rng(0).standard_normal((40, 32)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    assert projbank(*fit(tmp_path, "bank"))[0] == 0
    assert projbank("encode", tmp_path / "bank", tmp_path / "x.npy", "-o", tmp_path / "codes.npy")[0] == 0
    assert projbank("index", tmp_path / "codes.npy", "-o", tmp_path / "index.pbi", "-b", 20)[0] == 0
    return tmp_path


def fit(folder, out, *more, vectors="x.npy", seed=0):
    return [
        "fit",
        folder / vectors,
        "-b",
        20,
        "-k",
        5,
        "--set",
        "max_iter=2",
        "--seed",
        seed,
        "-o",
        folder / out,
        *more,
    ]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        "fit x.npy -o x.npy",
        "encode bank x.npy -o x.npy",
        "encode bank x.npy -o bank",
        "index codes.npy -o codes.npy",
        "search index.pbi codes.npy -o index.pbi",
        "search index.pbi codes.npy -o codes.npy",
        "search index.pbi x.npy --bank bank -o bank",
        "search index.pbi x.npy --bank bank --rerank x.npy -o x.npy",
    ],
)
def test_an_input_is_never_replaced(folder, projbank, words, link):
    command, *rest, output = words.split()
    if link:
        (folder / "link").symlink_to(folder / output)
        output = "link"
    before = content(folder)
    paths = [folder / word if (folder / word).exists() else word for word in [*rest, output]]
    code, said, error = projbank(command, *paths, "--force")
    assert (code, said) == (2, "")
    assert "it is the input" in error
    assert error.count("\n") == 1
    assert content(folder) == before


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("fit x.npy -o", "model"),
        ("encode bank x.npy -o", "codes"),
        ("encode bank x.npy --margins -o", "margins"),
        ("index codes.npy -o", "index"),
        ("search index.pbi codes.npy --format csv -o", "results"),
    ],
)
def test_another_kind_is_replaced_by_force_only(folder, projbank, words, kind):
    words = [folder / word if (folder / word).exists() else word for word in words.split()]
    more = ["-b", 20] if words[0] in ("fit", "index") else []
    more += ["-k", 5, "--set", "max_iter=2"] if words[0] == "fit" else []
    np.save(folder / "mine.npy", np.random.default_rng(1).standard_normal((3, 4)))
    mine = (folder / "mine.npy").read_bytes()
    code, _, error = projbank(*words, folder / "mine.npy", *more)
    assert code == 2
    assert f"another kind (vectors, not {kind})" in error
    assert (folder / "mine.npy").read_bytes() == mine
    assert projbank(*words, folder / "mine.npy", *more, "--force")[0] == 0
    once = (folder / "mine.npy").read_bytes()
    assert once != mine
    assert projbank(*words, folder / "mine.npy", *more)[0] == 0
    assert (folder / "mine.npy").read_bytes() == once


def test_codes_tell_what_made_them(folder, projbank):
    note = read_note(folder / "codes.npy")
    assert note["kind"] == "codes"
    assert note["made_by"] == load(folder / "bank").identity()
    assert note["n_bits"] == 20
    assert projbank("encode", folder / "bank", folder / "x.npy", "--margins", "-o", folder / "m.npy")[0] == 0
    assert read_note(folder / "m.npy")["kind"] == "margins"


def test_vectors_of_another_codebook_are_refused(folder, projbank):
    for name, codebook in (("a.npy", "FeatureExtractor:1"), ("b.npy", "FeatureExtractor:2"), ("c.npy", None)):
        (folder / name).write_bytes((folder / "x.npy").read_bytes())
        add_note(folder / name, kind="vectors", made_by=codebook)
    assert projbank(*fit(folder, "a.bank", vectors="a.npy"))[0] == 0
    assert load(folder / "a.bank").trained_on_ == "FeatureExtractor:1"
    assert projbank("encode", folder / "a.bank", folder / "a.npy", "-o", folder / "out.npy")[0] == 0
    for name in ("c.npy", "x.npy"):  # nothing is known
        assert projbank("encode", folder / "a.bank", folder / name, "-o", folder / "out.npy")[0] == 0
    code, _, error = projbank("encode", folder / "a.bank", folder / "b.npy", "-o", folder / "out.npy")
    assert code == 2
    assert "b.npy: was made by FeatureExtractor:2, but the codebook of" in error
    assert "a.bank is FeatureExtractor:1; describe them with" in error
    assert projbank("encode", folder / "bank", folder / "b.npy", "-o", folder / "out.npy")[0] == 0


@pytest.mark.parametrize("command", ["fit", "encode", "index", "search"])
def test_a_full_disk_is_one_line(folder, projbank, full_disk, command):
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((2000, 32)).astype(np.float32))
    assert projbank("encode", folder / "bank", folder / "x.npy", "-o", folder / "codes.npy")[0] == 0
    words = {
        "fit": fit(folder, "out", "--neighbors", 5),
        "encode": ["encode", folder / "bank", folder / "x.npy", "-o", folder / "out"],
        "index": ["index", folder / "codes.npy", "-o", folder / "out", "-b", 20],
        "search": ["search", folder / "index.pbi", folder / "codes.npy", "-o", folder / "out"],
    }[command]
    before = content(folder)
    with full_disk(600):
        code, said, error = projbank(*words)
    assert (code, said) == (2, "")
    assert "out: " in error
    assert "bytes are needed" in error
    assert "are free" in error
    assert error.count("\n") == 1
    assert content(folder) == before


def test_names_with_brackets_are_names(projbank, tmp_path):
    path = tmp_path / "a[" / "b]:smile:.npy"
    path.parent.mkdir()
    np.save(path, np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32))
    code, said, _ = projbank("info", path)
    assert code == 0
    assert "[/b]:smile:" in said.replace("\n", "")
    code, said, _ = projbank(
        "evaluate", path, "--name", "[/b]:smile:", "--methods", "sign", "--bits", 8, "--seeds", 1, "-k", 2
    )
    assert code == 0
    assert "[/b]:smile:" in said


def test_terminal_codes_in_names_are_written_out(projbank, tmp_path):
    for command in ("info", "fit"):
        more = ["-o", tmp_path / "o"] if command == "fit" else []
        code, _, error = projbank(command, tmp_path / "a\x1b[31mred\x07.npy", *more)
        assert code == 2
        assert "\x1b" not in error
        assert r"a\x1b[31mred\x07.npy: no such file" in error


@pytest.mark.parametrize("seconds", [0.02, 0.3, 1.5])
def test_an_interrupt_at_any_time_is_one_line(folder, seconds):
    code = "from projbank.cli import main; print('up', flush=True); main()"
    words = [sys.executable, "-c", code, *map(str, fit(folder, "out", "--set", "max_iter=100000"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate()
    assert "Traceback" not in error
    assert "interrupted" in error or process.returncode == 0
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]


def test_an_interrupt_that_a_finalizer_swallows_comes_again():
    """Python drops what is raised in a finalizer; tidying up is not interrupted a second time."""
    code = """
import os, signal, time
import projbank.cli
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(100000))
def run():
    Lost()
    try:
        time.sleep(60)
    finally:
        time.sleep(1.5)
        print("tidied")
projbank.cli.run = run
from projbank.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (130, "tidied\n", "interrupted\n")


@pytest.mark.parametrize("solver", ["joint", "paper"])
def test_constant_training_data_are_told(tmp_path, projbank, solver):
    np.save(tmp_path / "x.npy", np.full((100, 32), 3, np.float32))
    words = ["--solver", solver, "-b", 16, "-k", 5, "--set", "max_iter=2"]
    code, _, error = projbank("fit", tmp_path / "x.npy", *words, "-o", tmp_path / "bank")
    assert code == 0
    assert "warning: X: all rows are the same: nothing can be learnt from them." in error


def test_info_verifies_every_byte(folder, projbank):
    for name, wanted in {"bank": "agrees", "codes.npy": "agrees", "index.pbi": "agrees", "x.npy": "none"}.items():
        code, said, _ = projbank("info", folder / name, "--verify", "--json")
        assert code == 0
        assert json.loads(said)["checksum"] == wanted
        if wanted == "agrees":
            content = bytearray((folder / name).read_bytes())
            content[-200] ^= 1
            (folder / name).write_bytes(content)
            code, _, error = projbank("info", folder / name, "--verify")
            assert code == 2
            assert "damaged" in error


def test_a_folder_of_the_users_is_never_replaced(folder, projbank):
    """A zarr store is replaced by force; another folder of that name, or one that holds an input, never."""
    words = ["encode", folder / "bank", folder / "x.npy", "-o", folder / "mine.zarr", "--force"]
    (folder / "mine.zarr").mkdir()
    (folder / "mine.zarr" / "diary.txt").write_text("Dear diary")
    code, _, error = projbank(*words)
    assert code == 2
    assert "no zarr store" in error
    assert (folder / "mine.zarr" / "diary.txt").read_text() == "Dear diary"
    (folder / "mine.zarr" / "zarr.json").write_text("{}")
    (folder / "mine.zarr" / "x.npy").write_bytes((folder / "x.npy").read_bytes())
    words[2] = folder / "mine.zarr" / "x.npy"
    code, _, error = projbank(*words)
    assert code == 2
    assert "or holds it" in error
    assert (folder / "mine.zarr" / "diary.txt").read_text() == "Dear diary"


@pytest.mark.parametrize("name", ["../../x", "/x", ".x", "a\\b", "a\nb", ""])
def test_names_of_sets_lead_nowhere(tmp_path, projbank, name):
    np.save(tmp_path / "x.npy", np.zeros((30, 8), np.float32))
    np.save(tmp_path / "x.labels.npy", np.arange(30) % 3)
    (tmp_path / "sets.toml").write_text(f"[{json.dumps(name)}]\nvectors = 'x.npy'\n")
    out = tmp_path / "deep" / "down" / "out"
    code, _, error = projbank("reproduce", "retrieval", "--data", tmp_path / "sets.toml", "-o", out, "-q")
    assert code == 2
    assert "can't be the name of a set" in error
    assert not out.exists()


def test_codes_of_another_bank_are_refused_and_both_are_named(folder, projbank):
    """Of the same length: answers would look right."""
    assert projbank(*fit(folder, "other", seed=1))[0] == 0
    assert projbank("encode", folder / "other", folder / "x.npy", "-o", folder / "others.npy")[0] == 0
    assert projbank("search", folder / "index.pbi", folder / "x.npy", "--bank", folder / "bank")[0] == 0
    mine, others = load(folder / "bank").identity(), load(folder / "other").identity()
    for words in (["x.npy", "--bank", folder / "other"], ["others.npy"]):
        code, said, error = projbank("search", folder / "index.pbi", folder / words[0], *words[1:])
        assert (code, said) == (2, "")
        assert mine in error
        assert others in error
        assert "projbank recode" in error
    code, _, error = projbank("index", folder / "others.npy", "-o", folder / "index.pbi", "--append")
    assert code == 2
    assert mine in error
    assert others in error


def test_codes_without_a_note_are_searched_with_one_warning(folder, projbank, monkeypatch):
    from projbank import integrity

    monkeypatch.setattr(integrity, "_warned", set())
    np.save(folder / "plain.npy", np.load(folder / "codes.npy"))
    assert projbank("index", folder / "plain.npy", "-o", folder / "plain.pbi", "-b", 20)[0] == 0
    for wanted in (1, 0):
        code, _, error = projbank("search", folder / "plain.pbi", folder / "x.npy", "--bank", folder / "bank")
        assert (code, error.count("carries no note of what made it")) == (0, wanted)


def test_an_index_knows_the_length_of_its_codes(folder, projbank):
    assert projbank("index", folder / "codes.npy", "-o", folder / "i.pbi")[0] == 0
    assert json.loads(projbank("info", folder / "i.pbi", "--json")[1])["bits"] == 20
