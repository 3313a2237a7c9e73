"""`projbank check` as a user runs it."""

import json

import numpy as np
import pytest

from projbank import ProjectionBank, check, load


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((300, 96), np.float32)
    np.save("x.npy", X[:240])
    np.save("new.npy", X[240:])
    np.save("y.npy", np.arange(240) % 5)
    ProjectionBank(32, n_neighbors=20, max_iter=3, solver="joint").fit(X[:220], set_aside=40).save("b.safetensors")
    return X


def test_a_bank_and_its_vectors(files, projbank):
    code, out, _ = projbank("check", "b.safetensors", "x.npy", "--labels", "y.npy", "--queries", "50")
    assert code == 0
    for words in (
        "recall@10 of the floats' nearest",
        "recall@100, asymmetric",
        "precision of the floats",
        "What to do",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


def test_codes_alone_and_the_index_of_them_give_what_python_gives(files, projbank):
    assert projbank("encode", "b.safetensors", "x.npy", "-o", "c.npy")[0] == 0
    assert projbank("index", "c.npy", "-o", "i.pbi", "--bits", "32")[0] == 0
    expected = json.loads(json.dumps(check(None, files[:240], codes=np.load("c.npy")).as_dict()))
    assert projbank("store", "faiss", "c.npy", "--to", "folder")[0] == 0
    for words in (["--codes", "c.npy"], ["--index", "i.pbi"], ["--store", "faiss", "--to", "folder"]):
        code, out, err = projbank("check", "x.npy", "--json", *words)
        assert code == 0, err
        assert json.loads(out) == expected
    assert "give one of them" in projbank("check", "x.npy", "--codes", "c.npy", "--store", "faiss")[2]


def test_new_vectors_like_the_old_ones(files, projbank):
    code, out, _ = projbank("check", "b.safetensors", "x.npy", "--new", "new.npy", "--json")
    assert code == 0
    drift = json.loads(out)["drift"]
    assert (drift["n_reference"], drift["n_new"]) == (40, 60)
    np.save("far.npy", files[240:] + 3)
    assert json.loads(projbank("check", "b.safetensors", "x.npy", "--new", "far.npy", "--json")[1])["drift"]["alarm"]


def test_fit_sets_aside_and_learns_on(files, projbank):
    words = ["--bits", "16", "--solver", "joint", "--set-aside", "30", "--set", "max_iter=3", "-o", "m.safetensors"]
    assert projbank("fit", "x.npy", *words)[0] == 0
    assert len(load("m.safetensors").reference_) == 30
    code, out, _ = projbank("fit", "x.npy", "--from", "m.safetensors", "-o", "anew.safetensors")
    assert code == 0
    assert "not comparable with its codes: code anew with projbank recode" in out
    code, out, _ = projbank("fit", "x.npy", "--from", "m.safetensors", "--keep-codes", "-o", "kept.safetensors")
    assert code == 0
    assert "codes of m.safetensors stay comparable" in out
    kept = load("kept.safetensors")
    np.save("narrow.npy", files[:, :90])
    assert kept.comparable_ == (load("m.safetensors").identity(),)
    assert "expects 96" in projbank("fit", "narrow.npy", "--from", "m.safetensors", "-o", "z.safetensors")[2]
    assert (kept.solver, kept.n_bits_, kept.max_iter) == ("joint", 16, 3)
    assert projbank("encode", "m.safetensors", "x.npy", "-o", "c.npy")[0] == 0
    assert projbank("check", "kept.safetensors", "x.npy", "--codes", "c.npy")[0] == 0
    assert projbank("check", "anew.safetensors", "x.npy", "--codes", "c.npy")[0] == 2
    assert projbank("index", "c.npy", "-o", "i.pbi", "--bits", "16")[0] == 0
    assert projbank("search", "i.pbi", "new.npy", "--bank", "kept.safetensors")[0] == 0
    assert projbank("encode", "kept.safetensors", "new.npy", "-o", "more.npy")[0] == 0
    assert projbank("index", "more.npy", "-o", "i.pbi", "--append")[0] == 0
    code, _, err = projbank("search", "i.pbi", "new.npy", "--bank", "anew.safetensors")
    assert code == 2
    assert "projbank recode anew.safetensors VECTORS i.pbi" in err
    assert "give --from" in projbank("fit", "x.npy", "--keep-codes", "-o", "z.safetensors")[2]
    assert "n_bits=8" in projbank("fit", "x.npy", "--from", "m.safetensors", "--bits", "8", "-o", "z.safetensors")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.npy"], "needs a bank and vectors, or vectors and --codes"),
        (["b.safetensors", "x.npy", "y.npy"], "Got 3 files"),
        (["x.npy", "--codes", "y.npy"], "uint8"),
        (["x.npy", "--codes", "b.safetensors"], "holds no codes"),
        (["b.safetensors", "x.npy", "--codes", "c.npy", "--index", "c.npy"], "give one of them"),
        (["b.safetensors", "x.npy", "--picture", "p.gif"], ".png, .svg or .pdf"),
    ],
)
def test_errors_are_one_line(files, projbank, words, message):
    code, _, err = projbank("check", *words)
    assert code == 2
    assert message in err
    assert err.strip().count("\n") == 0


def test_codes_of_another_bank(files, projbank):
    projbank("encode", "b.safetensors", "x.npy", "-o", "c.npy")
    ProjectionBank(32, solver="random").fit(files).save("other.safetensors")
    code, _, err = projbank("check", "other.safetensors", "x.npy", "--codes", "c.npy")
    assert code == 2
    assert "projbank recode other.safetensors x.npy c.npy" in err
