"""Other codes in place of all, and coding a store anew."""

import itertools
import multiprocessing
import os
import signal

import numpy as np
import pytest

from projbank import HammingIndex, ProjectionBank
from projbank.stores import FaissStore
from projbank.upkeep import recode as upkeep
from projbank.upkeep.recode import recode_store


@pytest.fixture(scope="module")
def banks():
    X = np.random.default_rng(0).standard_normal((50, 96), np.float32)
    return X, *(ProjectionBank(21, solver="random", random_state=seed).fit(X) for seed in (0, 1))


def nearest(store, bank, X, ids=None):
    """Whether a store answers as an index of the bank's codes does."""
    index = HammingIndex(bank.transform(X), n_bits=21, ids=ids)
    found, expected = store.search(bank.transform(X[:7]), 5), index.search(bank.transform(X[:7]), 5)
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_store_is_coded_anew(open_store, banks, tmp_path):
    X, old, new = banks
    ids = np.random.default_rng(1).permutation(200)[:50]
    with open_store() as store:
        store.create(21).add(old.transform(X), ids, [{"n": int(i)} for i in ids])
        assert recode_store(new, X, store, tmp_path / "work", ids=ids) == {"kind": "store", "codes": 50, "coded": 50}
        assert nearest(store, new, X, ids)
    with open_store() as store:
        assert nearest(store, new, X, ids)
        assert np.array_equal(store.codes(), new.transform(X)[np.argsort(ids)])
        assert store.payload(ids[:3]) == [{"n": int(i)} for i in ids[:3]]
        with pytest.raises(ValueError, match="codes must be 50"):
            store.replace(old.transform(X[:9]))
    assert not (tmp_path / "work").exists()


def test_text_ids_and_an_index_stay(tmp_path, banks):
    X, old, new = banks
    names = [f"picture {i}" for i in range(50)]
    with FaissStore(tmp_path / "s") as store:
        store.create(21).add(old.transform(X), names).build_index("ivf", n_lists=2)
        recode_store(new, X, store, tmp_path / "work")
    with FaissStore(tmp_path / "s") as store:
        distances, ids = store.search(new.transform(X[:5]), 1, effort=2)
        assert (distances[:, 0] == 0).all()
        assert ids[:, 0].tolist() == names[:5]
        assert np.array_equal(store.codes(), new.transform(X))
        with pytest.raises(ValueError, match="already has an index"):
            store.build_index("ivf")


def test_killed_twice_it_ends_whole(tmp_path, banks, monkeypatch):
    X, old, new = banks
    monkeypatch.setattr(upkeep, "BLOCK_BYTES", 4 * 96 * 10)
    with FaissStore(tmp_path / "s") as store:
        store.create(21).add(old.transform(X))

    def run(last):
        calls, transform = itertools.count(1), new.transform

        def dying(rows):
            if next(calls) == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return transform(rows)

        new.transform = dying
        with FaissStore(tmp_path / "s") as store:
            recode_store(new, X, store, tmp_path / "work")

    for last in (2, 3):
        child = multiprocessing.get_context("fork").Process(target=run, args=(last,))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        with FaissStore(tmp_path / "s") as store:
            assert nearest(store, old, X)
    with FaissStore(tmp_path / "s") as store:
        assert recode_store(new, X, store, tmp_path / "work")["coded"] == 20
        assert nearest(store, new, X)


def test_another_length_is_refused(tmp_path, banks):
    X, old, _ = banks
    with FaissStore(tmp_path / "s") as store:
        store.create(21).add(old.transform(X))
        with pytest.raises(ValueError, match="21 bits"):
            recode_store(ProjectionBank(30, solver="random").fit(X), X, store, tmp_path / "work")
