"""Extraction: the same vectors whatever the way there, also after being cut off."""

from __future__ import annotations

import json

import numpy as np
import pytest

from projbank.features import DenseSIFT, DenseTrajectories, FisherVector
from projbank.features import extract as extraction
from projbank.features.extract import Outputs, extract
from projbank.features.extractor import FeatureExtractor, build_extractor
from projbank.features.media import MediaError
from projbank.features.readers import open_source
from projbank.features.rowfile import HEADER_BYTES, RowFile
from projbank.features.tasks import State, descriptors, process_count
from projbank.features.workers import Processes
from projbank.models.file import ModelFileError, load
from tests.features.media_files import picture, picture_folder, write_video, zip_of


def small():
    return FeatureExtractor(DenseSIFT((3, 4)), FisherVector(3, max_iter=3))


@pytest.fixture
def source(tmp_path):
    return open_source(picture_folder(tmp_path / "data"))


def test_vectors_equal_those_of_the_estimators(source, tmp_path):
    done = extract(source, small(), tmp_path / "vectors.npy", n_jobs=1)
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert vectors.shape == (done.n_rows, done.n_dims) == (12, 2 * 3 * 128)
    assert vectors.dtype == np.float32
    extractor = load(tmp_path / "vectors.codebook.safetensors")
    images = [picture(100 * c + i) for c in range(3) for i in range(4)]
    np.testing.assert_array_equal(vectors, extractor.transform(images))
    np.testing.assert_array_equal(vectors, small().fit(images).transform(images))  # all descriptors fit in the sample
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), np.repeat([0, 1, 2], 4))
    assert (tmp_path / "files.txt").read_text().splitlines() == [item.file for item in source.items]
    assert (tmp_path / "classes.txt").read_text() == "0\tclass0\n1\tclass1\n2\tclass2\n"
    assert not (tmp_path / "vectors.npy.partial").exists()


def test_the_given_extractor_is_left_as_it_was(source, tmp_path):
    extractor = FeatureExtractor(None, FisherVector(2, max_iter=2))
    extract(source, extractor, tmp_path / "a.npy", n_jobs=1)
    assert not hasattr(extractor, "encoder_")
    extract(source, extractor, tmp_path / "b.npy", n_jobs=1)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_other_outputs_carry_their_name():
    outputs = Outputs(extraction.Path("a/queries.npy"))
    assert outputs.labels.name == "queries.labels.npy"
    assert outputs.files.name == "queries.files.txt"
    assert outputs.codebook.name == "queries.codebook.safetensors"


def test_worker_processes_give_the_same_bits(tmp_path):
    picture_folder(tmp_path / "data", 4)
    source = open_source(tmp_path / "data")
    assert process_count(2, len(source.items)) == 2
    extract(source, small(), tmp_path / "one.npy", n_jobs=1)
    extract(source, small(), tmp_path / "two.npy", n_jobs=2)
    assert (tmp_path / "one.npy").read_bytes() == (tmp_path / "two.npy").read_bytes()


def test_a_codebook_encodes_queries_the_same_way(source, tmp_path):
    extract(source, small(), tmp_path / "gallery.npy", n_jobs=1)
    codebook = load(tmp_path / "gallery.codebook.safetensors")
    queries = open_source(zip_of(tmp_path / "data" / "class1", tmp_path / "q.zip"))
    extract(queries, codebook, tmp_path / "queries.npy", n_jobs=1)
    np.testing.assert_array_equal(np.load(tmp_path / "queries.npy"), np.load(tmp_path / "gallery.npy")[4:8])
    kept = load(tmp_path / "queries.codebook.safetensors")
    np.testing.assert_array_equal(kept.encoder_.means_, codebook.encoder_.means_)


class CutOffError(Exception):
    """What a kill is in these tests."""


def cut_after(monkeypatch, n):
    """Let the n-th row be the last that is written."""
    real = RowFile.append

    def append(self, row, reason="", **facts):
        if self.n_done == n:
            raise CutOffError
        real(self, row, reason, **facts)

    monkeypatch.setattr(RowFile, "append", append)


def test_a_run_that_was_cut_off_goes_on_without_redoing(source, tmp_path, monkeypatch):
    extract(source, small(), tmp_path / "whole.npy", n_jobs=1)
    with monkeypatch.context() as patch:
        cut_after(patch, 5)
        with pytest.raises(CutOffError):
            extract(source, small(), tmp_path / "cut.npy", n_jobs=1)
    assert not (tmp_path / "cut.npy").exists()
    codebook = (tmp_path / "cut.npy.partial" / "codebook.safetensors").read_bytes()
    done = extract(source, small(), tmp_path / "cut.npy", n_jobs=1)
    assert done.n_encoded == 7
    assert (tmp_path / "cut.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert (tmp_path / "cut.codebook.safetensors").read_bytes() == codebook


@pytest.mark.parametrize("damage", ["half a row", "row without line", "half a line", "line without row"])
def test_what_a_kill_leaves_behind_is_put_right(source, tmp_path, monkeypatch, damage):
    extract(source, small(), tmp_path / "whole.npy", n_jobs=1)
    with monkeypatch.context() as patch:
        cut_after(patch, 6)
        with pytest.raises(CutOffError):
            extract(source, small(), tmp_path / "cut.npy", n_jobs=1)
    rows, journal = (tmp_path / "cut.npy.partial" / name for name in ("rows.npy", "journal.jsonl"))
    if damage == "half a row":
        rows.write_bytes(rows.read_bytes() + b"\1" * 100)
    elif damage == "row without line":
        rows.write_bytes(rows.read_bytes() + b"\1" * (4 * 768))
    elif damage == "half a line":
        journal.write_text(journal.read_text() + '{"ok": tr')
    else:
        rows.write_bytes(rows.read_bytes()[:-1])
    extract(source, small(), tmp_path / "cut.npy", n_jobs=1)
    assert (tmp_path / "cut.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_a_run_with_other_settings_is_not_mixed_in(source, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        cut_after(patch, 2)
        with pytest.raises(CutOffError):
            extract(source, small(), tmp_path / "v.npy", n_jobs=1)
    other = small().set_params(descriptor__step=5)
    with pytest.raises(ValueError, match=r"v.npy.partial is left from a run with other files or settings"):
        extract(source, other, tmp_path / "v.npy", n_jobs=1)
    assert extract(source, other, tmp_path / "v.npy", n_jobs=1, restart=True).n_rows == 12


def test_an_undecodable_file_is_fatal_or_skipped(source, tmp_path, capsys):
    (tmp_path / "data" / "class1" / "02.png").write_bytes(b"broken")
    with pytest.raises(MediaError, match=r"class1/02.png: can't be decoded as an image"):
        extract(source, small(), tmp_path / "v.npy", n_jobs=1)
    assert not (tmp_path / "v.npy").exists()
    done = extract(source, small(), tmp_path / "v.npy", on_error="skip", n_jobs=1)
    assert done.n_rows == 11
    assert done.skipped == ["class1/02.png: can't be decoded as an image."]
    assert "skipped class1/02.png" in capsys.readouterr().err
    assert np.load(tmp_path / "v.npy").shape[0] == len(np.load(tmp_path / "v.labels.npy")) == 11
    assert "class1/02.png" not in (tmp_path / "v.files.txt").read_text()


def test_a_flat_picture_is_a_zero_row_that_is_named(source, tmp_path, capsys):
    import cv2

    cv2.imwrite(str(tmp_path / "data" / "class2" / "03.png"), np.full((40, 40), 9, np.uint8))
    done = extract(source, small(), tmp_path / "v.npy", n_jobs=1)
    assert done.empty == ["class2/03.png"]
    assert not np.load(tmp_path / "v.npy")[11].any()
    assert "class2/03.png: no descriptors, its vector is zero" in capsys.readouterr().err


def test_nothing_decodable_leaves_nothing(tmp_path):
    folder = picture_folder(tmp_path / "data", 1, 2)
    codebook = small().fit([picture(0), picture(1)])
    for file in folder.rglob("*.png"):
        file.write_bytes(b"broken")
    with pytest.raises(MediaError, match="none of its 2 files could be decoded"):
        extract(open_source(folder), codebook, tmp_path / "v.npy", on_error="skip", n_jobs=1)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_run_that_failed_before_its_codebook_is_no_hindrance(source, tmp_path):
    with pytest.raises(ValueError, match="at least as many descriptors as the codebook has entries, 9999"):
        extract(source, FeatureExtractor(DenseSIFT(), FisherVector(9_999)), tmp_path / "v.npy", n_jobs=1)
    assert extract(source, small(), tmp_path / "v.npy", n_jobs=1).n_rows == 12


def test_videos(tmp_path):
    for i, action in enumerate(("run", "run", "walk")):
        write_video(tmp_path / "data" / action / f"{i}.avi", i)
    source = open_source(zip_of(tmp_path / "data", tmp_path / "videos.zip"))
    extractor = FeatureExtractor(DenseTrajectories(n_scales=1), FisherVector(2, max_iter=2))
    done = extract(source, extractor, tmp_path / "v.npy", n_jobs=1)
    assert (done.n_rows, done.n_dims) == (3, 2 * 2 * 426)
    np.testing.assert_allclose(np.linalg.norm(np.load(tmp_path / "v.npy"), axis=1), 1, atol=1e-5)


def test_pictures_are_not_described_by_trajectories(source, tmp_path):
    with pytest.raises(ValueError, match="holds images, but the descriptor is one of videos"):
        extract(source, FeatureExtractor(DenseTrajectories(), FisherVector(2)), tmp_path / "v.npy")
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


@pytest.mark.parametrize(
    ("output", "error", "text"),
    [
        ("v.bin", ValueError, "must be a path that ends in .npy"),
        ("nowhere/v.npy", FileNotFoundError, "there is no folder"),
    ],
)
def test_a_bad_output_is_refused_at_once(source, tmp_path, output, error, text):
    with pytest.raises(error, match=text):
        extract(source, small(), tmp_path / output)
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


def test_rows_are_a_plain_npy_file(tmp_path):
    with RowFile(tmp_path, 5) as rows:
        for i in range(3):
            rows.append(np.full(5, i, np.float32))
        rows.append(None, "why")
        rows.finish()
    assert (tmp_path / "rows.npy").stat().st_size == HEADER_BYTES + 3 * 5 * 4
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), np.repeat([[0.0], [1], [2]], 5, axis=1))
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert lines == [{"ok": True}] * 3 + [{"ok": False, "reason": "why"}]


def test_a_full_disk_is_told_before_anything_is_encoded(source, tmp_path, full_disk):
    with pytest.raises(OSError, match=r"rows.npy: .*: 36,992 bytes are needed, [\d,]+ are free"), full_disk(30_000):
        extract(source, small(), tmp_path / "v.npy", n_jobs=1)
    assert not (tmp_path / "v.npy").exists()
    assert extract(source, small(), tmp_path / "v.npy", n_jobs=1).n_encoded == 12


def test_room_that_was_reserved_and_not_needed_is_given_back(tmp_path):
    with RowFile(tmp_path, 5) as rows:
        rows.reserve(1000)
        rows.append(np.ones(5, np.float32))
    assert (tmp_path / "rows.npy").stat().st_size >= 1000 * 20
    with RowFile(tmp_path, 5) as rows:
        assert rows.n_rows == 1
        rows.reserve(1000)
        rows.append(np.zeros(5, np.float32))
        rows.finish()
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), [[1] * 5, [0] * 5])
    assert (tmp_path / "rows.npy").stat().st_size == HEADER_BYTES + 2 * 20


def test_a_saved_extractor_keeps_everything(tmp_path):
    images = [picture(i) for i in range(4)]
    extractor = build_extractor("dense-sift", "vlad", 3, n_pca=20, alpha=0.7, bin_sizes=[4, 5], step=3, max_side=99)
    extractor.fit(images)
    extractor.save(tmp_path / "e.safetensors")
    loaded = load(tmp_path / "e.safetensors")
    assert loaded.descriptor.get_params() == extractor.descriptor.get_params()
    assert loaded.encoder.get_params() == extractor.encoder.get_params()
    assert loaded.max_side == 99
    np.testing.assert_array_equal(loaded.transform(images), extractor.transform(images))


def test_a_foreign_extractor_file_is_refused(tmp_path):
    extractor = small().fit([picture(0), picture(1)])
    extractor.descriptor = FisherVector(2)
    extractor.save(tmp_path / "e.safetensors")
    with pytest.raises(ModelFileError, match=r"e.safetensors: damaged model file \(names no known descriptor\)"):
        load(tmp_path / "e.safetensors")


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"descriptor": "surf"}, "'descriptor' parameter must be one of 'dense-sift', 'sift', 'trajectories'"),
        ({"kind": "bow"}, "'kind' parameter must be one of 'fv', 'vlad'"),
        ({"descriptor": "sift", "step": 3}, "Neither descriptor 'sift' nor encoder 'fv' has a parameter 'step'"),
    ],
)
def test_unknown_parts_are_named(kwargs, text):
    with pytest.raises(ValueError, match=text):
        build_extractor(**kwargs)


def test_a_worker_that_dies_is_said(source):
    calls = [(item, 100, [0]) for item in source.items]
    with Processes(State(source, small()), 2) as processes:
        assert len(list(processes.run(descriptors, calls))) == 12
        for process in processes._processes:
            process.kill()
        with pytest.raises(OSError, match="a worker process died"):
            list(processes.run(descriptors, calls))
