"""Coding anew: what comes out, what is served meanwhile, and what kills leave behind."""

import itertools
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from projbank import HammingIndex, ProjectionBank, load
from projbank.integrity import add_note, create_npy, open_npy
from projbank.upkeep import recode as upkeep
from projbank.upkeep.recode import recode


def killed_at(name, last):
    """Code `name` anew in a child that is killed at its `last`-th block of ten rows; 0: when all is to be replaced."""

    def stop(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def run():
        upkeep.BLOCK_BYTES = 4 * 96 * 10
        bank, calls = load("new.safetensors"), itertools.count(1)
        transform = bank.transform
        if last:
            bank.transform = lambda rows: stop() if next(calls) == last else transform(rows)
        else:
            os.replace = stop
        recode(bank, np.load("x.npy"), name)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Vectors, an old and a new bank, and codes and index of the old one."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((100, 96), np.float32)
    np.save("x.npy", X)
    old, new = (ProjectionBank(21, solver="random", random_state=seed).fit(X) for seed in (0, 1))
    old.save("old.safetensors")
    new.save("new.safetensors")
    codes = create_npy(tmp_path / "c.npy", (100, 3), np.uint8)
    codes[:] = old.transform(X)
    del codes
    add_note(tmp_path / "c.npy", kind="codes", made_by=old.identity(), n_bits=21)
    HammingIndex(old.transform(X), n_bits=21, made_by=old.identity(), payload=list(range(100))).save("i.pbi")
    return X, old, new


def holds(name, bank, X):
    """Whether a file or an index holds the codes of a bank."""
    if name == "i.pbi":
        index = HammingIndex.load(name)
        return index.made_by == bank.identity() and np.array_equal(index.codes, bank.transform(X))
    codes, note = open_npy(name)
    return note["made_by"] == bank.identity() and np.array_equal(codes, bank.transform(X))


@pytest.mark.parametrize("name", ["c.npy", "i.pbi"])
def test_killed_three_times_it_ends_whole(files, name):
    X, old, new = files
    for last, done in ((4, 30), (3, 50), (0, 100)):
        killed_at(name, last)
        assert holds(name, old, X)
        assert int(Path(f".{name}.recoding", "rows.txt").read_text()) == done
    Path(f".{name}.recoding", "rows.txt").write_text("80")  # what was not noted is made again
    facts = recode(new, X, name)
    assert facts == {"kind": "index" if name == "i.pbi" else "codes", "codes": 100, "coded": 20}
    assert holds(name, new, X)
    assert not os.path.exists(f".{name}.recoding")
    assert sorted(os.listdir()) == ["c.npy", "i.pbi", "new.safetensors", "old.safetensors", "x.npy"]


def test_another_bank_or_other_vectors_begin_anew(files):
    X, old, new = files
    killed_at("c.npy", 3)
    assert recode(old, X, "c.npy")["coded"] == 100
    killed_at("c.npy", 3)
    assert recode(new, X[::-1], "c.npy")["coded"] == 100
    np.testing.assert_array_equal(open_npy("c.npy")[0], new.transform(X[::-1]))


def test_an_index_keeps_ids_payload_and_gaps(files):
    X, old, new = files
    index = HammingIndex(old.transform(X[:60]), ids=np.arange(60), n_bits=21, payload=[{"n": i} for i in range(60)])
    index.remove([3, 7]).add(old.transform(X[[90, 80]]), ids=[90, 80], payload=["a", None])
    index.save("i.pbi")
    own = HammingIndex.load("i.pbi").ids
    assert recode(new, X, "i.pbi")["codes"] == 60
    found = HammingIndex.load("i.pbi")
    np.testing.assert_array_equal(found.ids, own)
    np.testing.assert_array_equal(found.codes, new.transform(X[own]))
    assert found.payload([5, 90, 80]) == [{"n": 5}, "a", None]


def test_own_ids_and_texts(files):
    X, old, new = files
    ids = np.random.default_rng(1).permutation(1000)[:100]
    HammingIndex(old.transform(X[:40]), ids=ids[:40], n_bits=21).save("i.pbi")
    recode(new, X, "i.pbi", ids=ids)
    np.testing.assert_array_equal(HammingIndex.load("i.pbi").codes, new.transform(X[:40]))
    names = [f"picture {i}" for i in range(100)]
    HammingIndex(old.transform(X), ids=names, n_bits=21).save("i.pbi")
    recode(new, X, "i.pbi")
    found = HammingIndex.load("i.pbi")
    assert found.ids.tolist() == names
    np.testing.assert_array_equal(found.codes, new.transform(X))


def test_another_length(files):
    X = files[0]
    longer = ProjectionBank(40, solver="random").fit(X)
    recode(longer, X, "c.npy")
    recode(longer, X, "i.pbi")
    assert holds("c.npy", longer, X)
    assert HammingIndex.load("i.pbi").n_bits == 40


def test_refused_and_left_as_it_was(files):
    X, old, new = files
    with pytest.raises(ValueError, match="100 codes, but there are 50 vectors"):
        recode(new, X[:50], "c.npy")
    with pytest.raises(ValueError, match="id 99, but there are 50 vectors"):
        recode(new, X[:50], "i.pbi")
    with pytest.raises(ValueError, match="not among ids"):
        recode(new, X, "i.pbi", ids=np.arange(100) + 5)
    with pytest.raises(ValueError, match="holds no codes"):
        recode(new, X, "x.npy")
    with pytest.raises(ValueError, match="96 dimensions"):
        recode(new, X[:, :50], "c.npy")
    with pytest.raises(FileNotFoundError):
        recode(new, X, "none.npy")
    assert holds("c.npy", old, X)
    assert holds("i.pbi", old, X)
    assert not [name for name in os.listdir() if name.startswith(".")]
