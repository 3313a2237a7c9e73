"""Straight to codes: the same as in steps, taken up after a kill at any moment, nothing skipped in silence."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from projbank import ModelFileError, ProjectionBank, load
from projbank.features import DenseSIFT, FeatureExtractor, FisherVector
from projbank.features.coder import MediaCoder
from projbank.features.listing import open_listing
from projbank.features.media import MediaError
from projbank.features.readers import walk
from projbank.features.rowfile import RowFile
from projbank.features.straight import code_files, compared, learn_describer, vectors_of
from projbank.features.tasks import process_count
from projbank.integrity import open_npy
from tests.features.media_files import picture, picture_folder, write_picture, zip_of


def small_coder(images):
    extractor = FeatureExtractor(DenseSIFT((4,)), FisherVector(2)).fit(images)
    return MediaCoder(
        extractor, ProjectionBank(n_bits=30, n_neighbors=4, solver="random").fit(extractor.transform(images))
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return picture_folder(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def coder():
    return small_coder([picture(seed) for seed in range(12)])


def names(path):
    return path.read_text().splitlines()


@pytest.mark.parametrize(("as_zip", "n_jobs"), [(False, 1), (True, 1), (True, 2)])
def test_codes_are_those_of_the_steps_one_by_one(coder, tmp_path, as_zip, n_jobs):
    folder, n_files = picture_folder(tmp_path / "photos", n_classes=4), 16
    assert process_count(n_jobs, n_files) == n_jobs
    source = zip_of(folder, tmp_path / "photos.zip") if as_zip else folder
    done = code_files(open_listing(source), coder, tmp_path / "codes.npy", n_jobs=n_jobs)
    assert (done.n_codes, done.n_bits, done.n_resumed, done.skipped) == (n_files, 30, 0, 0)
    codes, note = open_npy(tmp_path / "codes.npy")
    images = [picture(100 * c + i) for c in range(4) for i in range(4)]
    np.testing.assert_array_equal(codes, coder.bank.transform(coder.describer.transform(images)))
    np.testing.assert_array_equal(codes, coder.transform(images))
    assert names(tmp_path / "codes.files.txt") == [f"class{c}/{i:02d}.png" for c in range(4) for i in range(4)]
    assert note["made_by"] == coder.identity()
    assert {path.name for path in tmp_path.iterdir()} - {"photos", "photos.zip"} == {"codes.npy", "codes.files.txt"}


def test_one_file_keeps_both_parts(coder, tmp_path):
    coder.save(tmp_path / "coder.safetensors")
    again = load(tmp_path / "coder.safetensors")
    images = [picture(seed) for seed in range(3)]
    np.testing.assert_array_equal(again.transform(images), coder.transform(images))
    assert again.identity() == coder.identity()
    assert again.bank.trained_on_ == coder.describer.identity()
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "coder.safetensors").read_bytes()
    data = bytearray((tmp_path / "coder.safetensors").read_bytes())
    data[-100] ^= 1
    (tmp_path / "coder.safetensors").write_bytes(data)
    with pytest.raises(ModelFileError, match="checksum"):
        load(tmp_path / "coder.safetensors")


def test_parts_that_do_not_fit_are_refused(coder):
    short = ProjectionBank(n_bits=4, n_neighbors=4, solver="random").fit(np.random.default_rng(0).normal(size=(5, 16)))
    with pytest.raises(ValueError, match="vectors of 16 dimensions, but descriptions have 512"):
        MediaCoder(coder.describer, short)


def test_learning_from_all_files_is_learning_in_steps(folder):
    listing = open_listing(folder)
    drawn = listing.draw(100, seed=0)
    extractor = FeatureExtractor(DenseSIFT((4,)), FisherVector(2))
    learnt = learn_describer(listing, extractor, drawn, n_jobs=1)
    images = [picture(100 * c + i) for c in range(3) for i in range(4)]
    expected = FeatureExtractor(DenseSIFT((4,)), FisherVector(2)).fit(images)
    assert learnt.identity() == expected.identity()
    np.testing.assert_array_equal(vectors_of(listing, learnt, drawn, n_jobs=1), expected.transform(images))
    assert not hasattr(extractor, "encoder_")


def test_a_cut_off_run_goes_on_from_any_state(folder, coder, tmp_path):
    """What any kill can leave: a journal cut anywhere, and codes that are ahead of it or behind."""
    listing = open_listing(folder)
    code_files(listing, coder, tmp_path / "whole.npy", n_jobs=1)
    shutil.copytree(folder, tmp_path / "broken")
    (tmp_path / "broken" / "class2" / "00.png").write_bytes(b"no picture")
    with pytest.raises(MediaError, match=r"class2/00.png: can't be decoded"):
        code_files(open_listing(tmp_path / "broken"), coder, tmp_path / "codes.npy", n_jobs=1)
    partial = tmp_path / "codes.npy.partial"
    (partial / "job.txt").write_text(f"{folder.resolve()}\n{coder.identity()}\n")
    lines = []
    for item in list(listing)[:8]:
        stamp = [item.file, *listing.stamp(item).values()]
        lines.append(json.dumps({"ok": True, "stamp": stamp}).encode() + b"\n")
    saved = {path.name: path.read_bytes() for path in partial.iterdir()} | {"journal.jsonl": b"".join(lines)}
    rng = np.random.default_rng(0)
    for _ in range(12):
        partial.mkdir(exist_ok=True)
        for name, data in saved.items():
            (partial / name).write_bytes(data)
        for name in ("journal.jsonl", "codes.npy"):
            with open(partial / name, "r+b") as file:
                file.truncate(rng.integers(0, len(saved[name]) + 1))
        done = code_files(listing, coder, tmp_path / "codes.npy", n_jobs=1)
        assert done.n_codes == 12
        assert (tmp_path / "codes.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
        assert names(tmp_path / "codes.files.txt") == names(tmp_path / "whole.files.txt")
    for path in tmp_path.glob("codes.*"):
        path.unlink()


def test_a_killed_process_loses_nothing(tmp_path, coder):
    folder = picture_folder(tmp_path / "photos", n_classes=4, per_class=10)
    coder.save(tmp_path / "coder.safetensors")
    code_files(open_listing(folder), coder, tmp_path / "whole.npy", n_jobs=1)
    script = (
        "import sys, time, projbank; from projbank.features import straight, listing\n"
        f"coder = projbank.load({str(tmp_path / 'coder.safetensors')!r})\n"
        "describer = coder.describer.vector\n"
        "coder.describer.vector = lambda picture: (time.sleep(0.02), describer(picture))[1]\n"
        f"straight.code_files(listing.open_listing({str(folder)!r}), coder, sys.argv[1], n_jobs=1)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "codes.npy")])
    journal = tmp_path / "codes.npy.partial" / "journal.jsonl"
    while run.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 10):
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not (tmp_path / "codes.npy").exists()
    done = code_files(open_listing(folder), coder, tmp_path / "codes.npy", n_jobs=1)
    assert 10 < done.n_resumed < 40
    assert (tmp_path / "codes.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_files_that_changed_meanwhile_are_done_again(coder, tmp_path):
    folder = picture_folder(tmp_path / "photos")
    with RowFile(tmp_path, 4, "|u1") as codes:
        stamps = [[f"{i}"] for i in range(6)]
        for i, stamp in enumerate(stamps):
            codes.append(np.full(4, i, np.uint8) if i != 2 else None, "damaged" if i == 2 else "", stamp=stamp)
    holds, rest = compared(iter([["0"], ["1"], ["2"], ["3", 5], ["4"]]))
    with RowFile(tmp_path, 4, "|u1", holds=holds) as codes:
        assert (codes.n_done, list(rest)) == (3, [["3", 5], ["4"]])
        assert codes.n_rows == 2
        codes.append(np.full(4, 9, np.uint8), stamp=["3", 5])
        codes.finish()
        kept = [line["stamp"][0] for line in codes.lines() if line["ok"]]
    assert np.load(tmp_path / "rows.npy")[:, 0].tolist() == [0, 1, 9]
    assert kept == ["0", "1", "3"]
    code_files(open_listing(folder), coder, tmp_path / "a.npy", n_jobs=1)
    write_picture(folder / "class0" / "00.png", 999)
    code_files(open_listing(folder), coder, tmp_path / "a.npy", n_jobs=1)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy")[0], coder.transform([picture(999)])[0])


def test_damaged_and_even_pictures_are_reported(coder, tmp_path, capsys):
    import cv2

    folder = picture_folder(tmp_path / "photos", n_classes=1)
    cv2.imwrite(str(folder / "even.png"), np.full((40, 40), 128, np.uint8))
    (folder / "bad.jpg").write_bytes(b"\xff\xd8nothing")
    with pytest.raises(MediaError, match=r"bad\.jpg"):
        code_files(open_listing(folder), coder, tmp_path / "codes.npy", n_jobs=1)
    done = code_files(open_listing(folder), coder, tmp_path / "codes.npy", on_error="skip", n_jobs=1)
    assert (done.n_codes, done.skipped, done.empty) == (5, 1, 1)
    assert "bad.jpg" not in names(tmp_path / "codes.files.txt")
    said = capsys.readouterr().err
    assert "skipped bad.jpg" in said
    assert "even.png: no descriptors" in said
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "bad.jpg").write_bytes(b"\xff\xd8nothing")
    with pytest.raises(MediaError, match="none of its"):
        code_files(open_listing(tmp_path / "empty"), coder, tmp_path / "x.npy", on_error="skip", n_jobs=1)


def test_outputs_that_can_not_be_written_are_told_at_once(folder, coder, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.npy"):
        code_files(open_listing(folder), coder, tmp_path / "codes", n_jobs=1)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        code_files(open_listing(folder), coder, tmp_path / "nowhere" / "codes.npy", n_jobs=1)


def test_files_come_in_the_order_of_their_paths(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(60):
        parts = ["".join(rng.choice(list("ab.-0 Z"), rng.integers(1, 4))) for _ in range(rng.integers(1, 4))]
        path = tmp_path.joinpath(*(part.strip(". ") or "x" for part in parts))
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    expected = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert [found.file for found in walk(tmp_path)] == expected


def test_links_out_of_the_folder_are_problems(tmp_path):
    root = picture_folder(tmp_path / "photos", n_classes=1, per_class=1)
    write_picture(tmp_path / "secret.png", 1)
    (root / "in.png").symlink_to(root / "class0" / "00.png")
    (root / "out.png").symlink_to(tmp_path / "secret.png")
    (root / "loop").symlink_to(root)
    assert {found.file: bool(found.problem) for found in walk(root)} == {
        "class0/00.png": False,
        "in.png": False,
        "loop": True,
        "out.png": True,
    }
    with pytest.raises(ValueError, match=r"out.png is a link to a file outside"):
        list(open_listing(root))


def test_drawing_is_fixed_by_the_seed(folder):
    listing = open_listing(folder)
    everything = [item.file for item in listing]
    drawn = [item.file for item in listing.draw(5, seed=3)]
    assert drawn == sorted(drawn)
    assert len(set(drawn)) == 5
    assert set(drawn) <= set(everything)
    assert drawn == [item.file for item in listing.draw(5, seed=3)]
    assert [item.file for item in listing.draw(50, seed=3)] == everything
