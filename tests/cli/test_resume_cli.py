"""`projbank encode` of vectors that was killed goes on where it stopped, if nothing has changed."""

import multiprocessing
import os
import sys

import numpy as np
import pytest

from projbank import ProjectionBank, load
from projbank.rows.source import RowSource

N, D, STOP = 900, 50, 500


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(RowSource, "part_bytes", 4 * D * 100)
    X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    ProjectionBank(24, solver="random").fit(X).save(tmp_path / "bank")
    return tmp_path


@pytest.fixture
def coded(monkeypatch):
    """Numbers of the rows that are coded."""
    seen = []
    transform = ProjectionBank.transform

    def spy(self, rows):
        if isinstance(rows, RowSource):
            seen.extend(range(rows.first, rows.first + rows.shape[0]))
        return transform(self, rows)

    monkeypatch.setattr(ProjectionBank, "transform", spy)
    return seen


def die_at_row(row, words):
    """Run the command in a child that ends without a word when it comes to a row."""

    def child():
        transform = ProjectionBank.transform

        def deadly(self, rows):
            if rows.first >= row:
                os._exit(9)
            return transform(self, rows)

        ProjectionBank.transform = deadly
        from projbank.cli import main

        sys.argv = ["projbank", *words]
        main()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 9


def words_of(folder):
    return ["encode", str(folder / "bank"), str(folder / "x.npy"), "-o", str(folder / "codes.npy")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_was_killed_goes_on(folder, coded, projbank):
    die_at_row(STOP, words_of(folder))
    assert not (folder / "codes.npy").exists()
    code, _, error = projbank(*words_of(folder))
    assert (code, "resuming: 576 of 900 rows are done" in error) == (0, True), error
    assert coded == list(range(576, N))  # parts are of 96 rows
    expected = load(folder / "bank").transform(np.load(folder / "x.npy"))
    np.testing.assert_array_equal(np.load(folder / "codes.npy"), expected)
    assert not (folder / "codes.npy.partial").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("change", ["vectors", "bank", "journal", "moved"])
def test_what_has_changed_starts_anew(change, folder, coded, projbank):
    die_at_row(STOP, words_of(folder))
    X = np.load(folder / "x.npy")
    if change == "vectors":
        np.save(folder / "x.npy", -X)
    elif change == "bank":
        ProjectionBank(24, solver="random", random_state=1).fit(X).save(folder / "bank")
    elif change == "moved":  # killed when the codes had left the folder
        (folder / "codes.npy.partial" / "codes.npy").unlink()
    else:
        (folder / "codes.npy.partial" / "rows.txt").write_text("what was noted")
    code, _, error = projbank(*words_of(folder))
    assert (code, error) == (0, "")
    assert coded == list(range(N))
    np.testing.assert_array_equal(
        np.load(folder / "codes.npy"), load(folder / "bank").transform(np.load(folder / "x.npy"))
    )


def test_an_error_leaves_nothing(folder, projbank):
    X = np.load(folder / "x.npy")
    X[612, 3] = np.nan
    np.save(folder / "x.npy", X)
    code, _, error = projbank(*words_of(folder))
    assert code == 2
    assert "NaN at row 612, column 3" in error
    assert sorted(os.listdir(folder)) == ["bank", "x.npy"]


def test_an_interrupted_run_says_how_to_go_on(folder, projbank, monkeypatch):
    transform = ProjectionBank.transform

    def interrupted(self, rows):
        if rows.first >= STOP:
            raise KeyboardInterrupt
        return transform(self, rows)

    monkeypatch.setattr(ProjectionBank, "transform", interrupted)
    code, _, error = projbank(*words_of(folder))
    assert code == 130
    assert error.endswith("codes.npy was not written; the same command goes on from there\n")
    monkeypatch.undo()
    assert projbank(*words_of(folder))[0] == 0
    assert sorted(os.listdir(folder)) == ["bank", "codes.npy", "x.npy"]
