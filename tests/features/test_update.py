"""A rerun on data that have changed: the codebook is kept, and nothing is described that need not be."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from projbank.features import DenseSIFT, FeatureExtractor, FisherVector
from projbank.features.extract import Outputs, extract
from projbank.features.media import read_photo
from projbank.features.readers import open_source
from projbank.features.rowfile import RowFile
from projbank.models.file import load
from tests.features.media_files import picture_folder, write_picture, zip_of


def small(n_components=3):
    return FeatureExtractor(DenseSIFT((3, 4)), FisherVector(n_components, max_iter=3))


@pytest.fixture
def data(tmp_path):
    return picture_folder(tmp_path / "data")


@pytest.fixture
def outputs(data, tmp_path):
    """The files of a first run."""
    extract(open_source(data), small(), tmp_path / "v.npy", n_jobs=1)
    return Outputs(tmp_path / "v.npy")


def again(data, outputs, extractor=None, **kwargs):
    return extract(open_source(data), extractor or small(), outputs.vectors, n_jobs=1, **kwargs)


def files(outputs):
    return outputs.files.read_text().splitlines()


def everything(outputs):
    return {path: path.read_bytes() for path in outputs.vectors.parent.glob("v.*")}


def expected(data, outputs):
    """What the kept codebook gives for every file of the list."""
    source = open_source(data)
    extractor, items = load(outputs.codebook), {item.file: item for item in source.items}
    images = [read_photo(source.read(items[name]), name, colour=False).image for name in files(outputs)]
    return extractor.transform(images), [items[name].label for name in files(outputs)]


def check(data, outputs):
    vectors, labels = expected(data, outputs)
    np.testing.assert_array_equal(np.load(outputs.vectors), vectors)
    np.testing.assert_array_equal(np.load(outputs.labels), labels)


def test_new_files_follow_and_the_codebook_is_kept(data, outputs):
    old, codebook = files(outputs), outputs.codebook.read_bytes()
    for i in range(5):
        write_picture(data / "class0" / f"00{i}.png", 900 + i)
    done = again(data, outputs)
    assert done.changes == "5 new files; codebook kept"
    assert done.n_encoded == 5
    assert files(outputs) == [*old, *(f"class0/00{i}.png" for i in range(5))]
    np.testing.assert_array_equal(load(outputs.codebook).encoder_.means_, small_means(codebook, outputs))
    check(data, outputs)
    before = everything(outputs)
    assert again(data, outputs).n_encoded == 0
    assert everything(outputs)[outputs.vectors] == before[outputs.vectors]
    assert files(outputs) == before[outputs.files].decode().splitlines()


def small_means(codebook, outputs):
    path = outputs.vectors.with_name("copy.safetensors")
    path.write_bytes(codebook)
    return load(path).encoder_.means_


def test_changed_files_are_described_anew_and_gone_ones_dropped(data, outputs):
    old = files(outputs)
    write_picture(data / "class1" / "01.png", 777)
    (data / "class0" / "02.png").unlink()
    done = again(data, outputs)
    assert done.changes == (
        "0 new files, 1 changed file (first: class1/01.png), 1 file gone, rows dropped (first: class0/02.png); "
        "codebook kept"
    )
    assert done.n_encoded == 1
    assert files(outputs) == [name for name in old if name != "class0/02.png"]
    check(data, outputs)


def test_a_change_of_the_same_size_is_seen_and_a_touch_is_none(data, outputs):
    for path in (data / "class0" / "00.png", data / "class0" / "01.png"):
        os.utime(path, ns=(10**9, 10**9))
    other = data / "class0" / "01.png"
    content = bytearray(other.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    os.utime(other, ns=(10**9, 10**9))
    assert again(data, outputs).changes == "0 new files, 1 changed file (first: class0/01.png); codebook kept"


def test_a_zip_of_the_same_files_has_no_news(data, outputs, tmp_path):
    archive = zip_of(data, tmp_path / "d.zip")
    assert again(archive, outputs).n_encoded == 0


def test_nothing_new_leaves_every_file_alone(data, outputs):
    before = {path: path.stat().st_mtime_ns for path in everything(outputs)}
    done = again(data, outputs)
    assert (done.n_rows, done.n_dims, done.n_encoded) == (12, 768, 0)
    assert {path: path.stat().st_mtime_ns for path in everything(outputs)} == before


def test_a_class_in_between_is_told(data, outputs):
    write_picture(data / "class00" / "a.png", 5)
    assert again(data, outputs).changes == "1 new file, labels numbered anew; codebook kept"
    check(data, outputs)


def test_a_file_that_changes_between_a_kill_and_the_resumption_is_done_anew(data, tmp_path, monkeypatch):
    append, outputs = RowFile.append, Outputs(tmp_path / "v.npy")

    def cut(self, row, reason="", **facts):
        if self.n_done == 6:
            raise KeyboardInterrupt
        append(self, row, reason, **facts)

    with monkeypatch.context() as patch:
        patch.setattr(RowFile, "append", cut)
        with pytest.raises(KeyboardInterrupt):
            extract(open_source(data), small(), outputs.vectors, n_jobs=1)
    write_picture(data / "class0" / "03.png", 555)
    assert again(data, outputs).n_encoded == 9
    check(data, outputs)


def test_relearn_starts_over(data, outputs, tmp_path):
    write_picture(data / "class0" / "000.png", 5)
    assert again(data, outputs, relearn=True).n_encoded == 13
    extract(open_source(data), small(), tmp_path / "w.npy", n_jobs=1)
    assert outputs.vectors.read_bytes() == (tmp_path / "w.npy").read_bytes()


def test_other_settings_or_another_codebook_are_refused(data, outputs, tmp_path):
    before = everything(outputs)
    with pytest.raises(ValueError, match=r"v.codebook.safetensors: was made with components=3. Got components=4"):
        again(data, outputs, small(4))
    extract(open_source(data), small().set_params(encoder__random_state=1), tmp_path / "w.npy", n_jobs=1)
    other = load(tmp_path / "w.codebook.safetensors")
    other.encoder.random_state = other.encoder_.random_state = 0
    with pytest.raises(ValueError, match=r"was made with the codebook FeatureExtractor:\w+, not with the given one"):
        again(data, outputs, other)
    outputs.codebook.write_bytes((tmp_path / "w.codebook.safetensors").read_bytes())
    with pytest.raises(
        ValueError, match=r"v.npy: was made with the codebook FeatureExtractor:\w{16}, but v.codebook.safetensors is"
    ):
        again(data, outputs, small().set_params(encoder__random_state=1))
    outputs.codebook.unlink()
    with pytest.raises(FileExistsError, match="exists without its codebook"):
        again(data, outputs)
    assert everything(outputs)[outputs.vectors] == before[outputs.vectors]


def test_vectors_of_other_data_are_not_replaced(outputs, tmp_path):
    other = picture_folder(tmp_path / "other")
    (other / "class0").rename(other / "a")
    (other / "class1").rename(other / "b")
    (other / "class2").rename(other / "c")
    before = everything(outputs)
    with pytest.raises(ValueError, match=r"holds vectors of other files .* none of which is in .*other"):
        again(other, outputs)
    assert everything(outputs) == before


def test_a_run_of_an_older_version_has_only_names(data, outputs):
    outputs.record.unlink()
    write_picture(data / "class1" / "9.png", 5)
    assert again(data, outputs).n_encoded == 1
    check(data, outputs)
    assert len(outputs.record.read_text().splitlines()) == 14


@pytest.mark.parametrize(
    "damage", ["", "[]\n", '{"format": "x"}\n', '{"format": "projbank-features", "version": 1}\nx']
)
def test_a_damaged_record_is_told(data, outputs, damage):
    outputs.record.write_text(damage)
    with pytest.raises(ValueError, match=r"record.jsonl: damaged"):
        again(data, outputs)


def test_damaged_vectors_are_told(data, outputs):
    outputs.vectors.write_bytes(b"")
    with pytest.raises(ValueError, match=r"v.npy: damaged"):
        again(data, outputs)


def test_vectors_that_lack_a_row_are_told(data, outputs):
    np.save(outputs.vectors, np.load(outputs.vectors)[:-1])
    with pytest.raises(ValueError, match=r"do not fit 12 files and a codebook of 768 dimensions"):
        again(data, outputs)


def test_a_file_that_was_skipped_is_tried_again(data, outputs):
    broken = data / "class0" / "zz.png"
    broken.write_bytes(b"broken")
    assert len(again(data, outputs, on_error="skip").skipped) == 1
    write_picture(broken, 3)
    assert again(data, outputs).changes == "1 new file; codebook kept"
    check(data, outputs)


def test_a_kill_between_two_moves_is_made_good(data, outputs, monkeypatch):
    write_picture(data / "class0" / "000.png", 5)
    real, moves = os.replace, []

    def replace(source, target):
        if str(target).endswith(".classes.txt"):
            raise KeyboardInterrupt
        moves.append(target)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            again(data, outputs)
    assert again(data, outputs).changes == "0 new files; codebook kept"
    check(data, outputs)
    assert not outputs.unfinished().folder.exists()


def test_every_row_is_on_record(data, outputs):
    first, *lines = map(json.loads, outputs.record.read_text().splitlines())
    assert first["codebook"] == load(outputs.codebook).identity()
    assert [line["file"] for line in lines] == files(outputs)
    assert all(line["size"] == (data / line["file"]).stat().st_size for line in lines)


def test_two_runs_at_once_are_told_apart(data, outputs):
    before = everything(outputs)
    with outputs.unfinished().locked(), pytest.raises(BlockingIOError, match=r"v.npy: another run is writing it"):
        again(data, outputs)
    assert everything(outputs) == before
    assert not outputs.unfinished().folder.exists()
    again(data, outputs)


def test_more_entries_than_the_sample_carries_are_refused_at_once(data, tmp_path):
    with pytest.raises(ValueError, match=r"at most 250000 descriptors carries 12500 entries .* Got 100000"):
        extract(open_source(data), small(100_000), tmp_path / "v.npy", n_jobs=1)
    assert list(tmp_path.iterdir()) == [data]
