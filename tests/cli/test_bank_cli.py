import json
import os
import signal
import subprocess
import sys
import time
import warnings

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from projbank import HammingIndex, load
from projbank.features import VLAD
from projbank.methods import METHODS


@pytest.fixture
def vectors(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float32)
    np.save(tmp_path / "v.npy", X)
    return tmp_path / "v.npy"


@pytest.fixture
def bank(projbank, vectors, tmp_path):
    code, _, _ = projbank(
        "fit", vectors, "--bits", 20, "-k", 5, "--set", "max_iter=3", "-o", tmp_path / "b.safetensors"
    )
    assert code == 0
    return tmp_path / "b.safetensors"


@pytest.mark.parametrize("solver", ["mixed", "joint", "paper"])
def test_fit_encode_info(projbank, vectors, tmp_path, solver):
    model, codes, margins = tmp_path / "m.safetensors", tmp_path / "c.npy", tmp_path / "f.npy"
    code, out, err = projbank("fit", vectors, "-b", 20, "--solver", solver, "-k", 5, "--set", "max_iter=3", "-o", model)
    assert (code, err) == (0, "")
    assert "64 dimensions to 20 bits" in out
    assert projbank("encode", model, vectors, "-o", codes)[0] == 0
    assert projbank("encode", model, vectors, "--margins", "-o", margins)[0] == 0
    X = np.load(vectors)
    np.testing.assert_array_equal(np.load(codes), load(model).transform(X))
    np.testing.assert_array_equal(np.load(margins), load(model).decision_function(X))
    facts = [json.loads(projbank("info", path, "--json")[1]) for path in (model, codes, vectors)]
    assert [fact["kind"] for fact in facts] == ["model", "codes", "vectors"]
    assert facts[0]["bits"] == 20
    assert facts[0]["parameters"]["solver"] == solver
    assert facts[1]["codes"] == facts[2]["vectors"] == 50
    assert facts[1]["bytes per code"] == 3
    code, out, _ = projbank("info", model)
    assert code == 0
    assert "group sizes" in out


def test_info_of_an_index_and_of_a_model_that_is_one(projbank, bank, tmp_path):
    codes = np.random.default_rng(0).integers(0, 256, (9, 3), dtype=np.uint8)
    HammingIndex(codes, ids=np.arange(9) * 2, n_bits=20).save(tmp_path / "i.pbi")
    facts = json.loads(projbank("info", tmp_path / "i.pbi", "--json")[1])
    assert (facts["kind"], facts["bits"], facts["codes"]) == ("index", 20, 9)
    assert facts["ids"] == {"least": 0, "most": 16}
    np.save(tmp_path / "x.npy", np.zeros((2, 5), np.float32))
    code, _, error = projbank("encode", tmp_path / "i.pbi", tmp_path / "x.npy", "-o", tmp_path / "c.npy")
    assert code == 2
    assert "an index, not a model" in error


@pytest.mark.parametrize("name", sorted(METHODS))
def test_encode_with_every_method(projbank, vectors, tmp_path, name):
    X = np.load(vectors)
    length = {"n_bits": 20} if METHODS[name].free_length else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = METHODS[name](**length).fit(X)
    model.save(tmp_path / "m")
    assert projbank("encode", tmp_path / "m", vectors, "-o", tmp_path / "c.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), model.transform(X))


def test_models_that_do_not_code_vectors_are_refused(projbank, vectors, tmp_path):
    VLAD(2).fit([np.random.default_rng(0).standard_normal((30, 64)).astype(np.float32)]).save(tmp_path / "vlad")
    code, _, error = projbank("encode", tmp_path / "vlad", vectors, "-o", tmp_path / "c.npy")
    assert code == 2
    assert "holds a VLAD, which does not code vectors" in error
    METHODS["pca"](5).fit(np.load(vectors)).save(tmp_path / "pca")
    code, _, error = projbank("encode", tmp_path / "pca", vectors, "--margins", "-o", tmp_path / "c.npy")
    assert code == 2
    assert "holds a PCA, which has no margins" in error


def test_other_file_kinds_give_the_same_codes(projbank, bank, vectors, tmp_path):
    X = np.load(vectors)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["x"] = X
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(X))
    np.savez(tmp_path / "v.npz", x=X, y=X)
    expected = load(bank).transform(X)
    for name, more in (("v.h5", []), ("s.npz", []), ("v.npz", ["--dataset", "y"])):
        assert projbank("encode", bank, tmp_path / name, "-o", tmp_path / "c.npy", *more)[0] == 0
        np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), expected)
        assert projbank("info", tmp_path / name, *more)[0] == 0


def test_groups_from_a_file(projbank, vectors, tmp_path):
    labels = np.arange(64) % 4
    np.save(tmp_path / "g.npy", labels)
    words = ["--bits", 4, "--grouping", tmp_path / "g.npy", "-k", 5, "--set", "max_iter=2", "-o", tmp_path / "b"]
    assert projbank("fit", vectors, *words)[0] == 0
    np.testing.assert_array_equal(load(tmp_path / "b").labels_, labels)


def test_a_warning_is_one_line(tmp_path, vectors):
    words = [
        sys.executable,
        "-m",
        "projbank",
        "fit",
        str(vectors),
        "-b",
        "8",
        "-k",
        "100",
        "--set",
        "max_iter=1",
        "-o",
        str(tmp_path / "b"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == "projbank: warning: n_neighbors=100 is lowered to 49: there are 50 training vectors.\n"


def test_verbose_tells_the_loss(projbank, vectors, tmp_path):
    words = ["fit", vectors, "-b", 8, "-k", 5, "--set", "max_iter=2", "-o", tmp_path / "b"]
    assert "loss: " in projbank(*words, "-v")[2]
    assert projbank(*words, "-q")[2] == ""


def test_bad_input_is_one_line_and_exit_code_2(projbank, bank, vectors, tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((3, 65), np.float32))
    np.save(tmp_path / "codes.npy", np.zeros((3, 8), np.uint8))
    bad = np.load(vectors)
    bad[7, 3] = np.nan
    np.save(tmp_path / "nan.npy", bad)
    np.save(tmp_path / "one.npy", bad[:1])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "cut.safetensors").write_bytes(bank.read_bytes()[:-5])
    (tmp_path / "foreign.safetensors").write_bytes(b"something else entirely")
    out = tmp_path / "out"
    out.write_bytes(b"untouched")
    before = sorted(os.listdir(tmp_path))
    cases = [
        (["fit", tmp_path / "nan.npy", "-k", 5, "-o", out], "nan.npy contains NaN at row 7, column 3"),
        (
            ["fit", vectors, "--solver", "joint", "-b", 65, "-o", out],
            "'n_bits' parameter of ProjectionBank must be at most",
        ),
        (["fit", vectors, "-b", "x", "-o", out], "--bits must be an int or 'auto'. Got 'x'"),
        (["fit", vectors, "-k", 0, "-o", out], "'n_neighbors'"),
        (["fit", tmp_path / "one.npy", "-o", out], "minimum of 2"),
        (["fit", tmp_path / "empty.npy", "-o", out], "the file is empty"),
        (["fit", tmp_path, "-o", out], "no images or videos"),
        (["fit", tmp_path / "codes.npy", "-o", out], "holds packed codes"),
        (["fit", vectors, "-o", tmp_path], "it is a directory"),
        (["fit", vectors, "-o", tmp_path / "no" / "x"], "there is no folder"),
        (["encode", bank, tmp_path / "nan.npy", "-o", out], "nan.npy contains NaN at row 7, column 3"),
        (["encode", bank, tmp_path / "wide.npy", "-o", out], "vectors have 65 dimensions, but"),
        (["encode", bank, tmp_path / "codes.npy", "-o", out], "holds packed codes"),
        (["encode", tmp_path / "cut.safetensors", vectors, "-o", out], "cut short or damaged"),
        (["encode", tmp_path / "foreign.safetensors", vectors, "-o", out], "not a safetensors file"),
        (["encode", vectors, vectors, "-o", out], "not a safetensors file"),
        (["info", tmp_path / "missing"], "no such file"),
        (["info", tmp_path / "foreign.safetensors"], "not a file of vectors"),
    ]
    for words, message in cases:
        code, said, error = projbank(*words, *(["--force"] if out in words else []))
        assert code == 2, words
        assert said == ""
        assert error.startswith("projbank: error: ")
        assert error.count("\n") == 1
        assert message in error
    assert out.read_bytes() == b"untouched"
    assert sorted(os.listdir(tmp_path)) == before


def test_usage_errors_are_exit_code_2(projbank, vectors):
    assert projbank("fit", vectors)[0] == 2
    assert projbank("fit", vectors, "-o", "x", "--solver", "magic")[0] == 2
    assert projbank("nonsense")[0] == 2
    for command in ("demo", "fit", "encode", "info"):
        code, out, _ = projbank(command, "--help")
        assert code == 0
        assert "Usage: projbank " + command in out


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_leaves_no_half_written_file(tmp_path):
    X = np.random.default_rng(0).standard_normal((8000, 1000), dtype=np.float32)  # many seconds of work
    np.save(tmp_path / "v.npy", X)
    words = [
        sys.executable,
        "-m",
        "projbank",
        "fit",
        "v.npy",
        "-b",
        "100",
        "--set",
        "max_iter=100000",
        "-o",
        "b.safetensors",
    ]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not any(name.endswith(".part") for name in os.listdir(tmp_path)):  # the work has begun
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.splitlines() == ["interrupted; b.safetensors was not written"]
    assert os.listdir(tmp_path) == ["v.npy"]


def test_errors_name_the_file_and_say_what_it_is(projbank, bank, vectors, tmp_path):
    X = np.load(vectors)
    X[7, 5] = np.nan
    np.save(tmp_path / "nan.npy", X)
    for words in (("fit", tmp_path / "nan.npy"), ("encode", bank, tmp_path / "nan.npy")):
        code, _, err = projbank(*words, "-o", tmp_path / "out.safetensors" if words[0] == "fit" else tmp_path / "o.npy")
        assert code == 2
        assert f"{tmp_path / 'nan.npy'} contains NaN at row 7, column 5." in err
    assert projbank("encode", bank, vectors, "-o", tmp_path / "c.npy")[0] == 0
    assert "(kind of file: vectors)" in projbank("encode", vectors, bank, "-o", tmp_path / "o.npy")[2]
    assert "(kind of file: codes)" in projbank("search", tmp_path / "c.npy", tmp_path / "c.npy")[2]
    assert projbank("index", tmp_path / "c.npy", "-o", tmp_path / "i.pbi")[0] == 0
    assert "vectors need their bank" in projbank("search", tmp_path / "i.pbi", vectors)[2]


def test_an_error_in_place_of_ctrl_c_is_one():
    """Modules in C raise "initialization failed" where Ctrl-C hits their import."""
    script = """
import os, signal, time
from projbank import cli
def build(names):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(20)
    except KeyboardInterrupt:
        raise ImportError("initialization failed") from None
cli.build = build
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
