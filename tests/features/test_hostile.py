"""Files made to break the command: bombs, names that climb, pipes, damaged members of zips."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib

import cv2
import numpy as np
import pytest

from projbank.features import DenseSIFT, FeatureExtractor, FisherVector, readers
from projbank.features.extract import extract
from projbank.features.media import MediaError, image_size, read_photo, video_frames
from projbank.features.readers import Item, Source, open_source
from tests.features.media_files import picture_folder, write_picture, write_video, zip_of


def small():
    return FeatureExtractor(DenseSIFT((3, 4)), FisherVector(2, max_iter=2))


def png_bomb(width, height):
    """A PNG of zeros whose header tells of so many pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(min(width + 1, 10**6)) * min(height, 10), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


IMAGE = np.random.default_rng(0).integers(0, 256, (21, 34, 3)).astype(np.uint8)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".pgm", ".ppm", ".tif", ".webp"])
@pytest.mark.parametrize("grey", [True, False])
def test_sizes_are_those_that_opencv_decodes(suffix, grey):
    image = IMAGE[..., 0] if grey else IMAGE
    if suffix in (".pgm", ".ppm") and grey != (suffix == ".pgm"):
        pytest.skip("not a form of this format")
    data = cv2.imencode(suffix, image)[1].tobytes()
    assert image_size(data) == (34, 21)
    for cut in range(0, len(data), 7):
        image_size(data[:cut])  # never raises
    if suffix == ".jpg":
        progressive = cv2.imencode(suffix, image, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_QUALITY, 30])[1]
        assert image_size(progressive.tobytes()) == (34, 21)
    if suffix == ".webp":
        assert image_size(cv2.imencode(suffix, image, [cv2.IMWRITE_WEBP_QUALITY, 50])[1].tobytes()) == (34, 21)


def test_a_big_endian_tiff_and_a_netpbm_with_comments():
    tags = struct.pack(">HHIHH", 256, 3, 1, 300, 0) + struct.pack(">HHII", 257, 4, 1, 70_000)
    assert image_size(b"MM\0*" + struct.pack(">IH", 8, 2) + tags) == (300, 70_000)
    assert image_size(b"P5 # a comment\n# another\n 12\n13 255 " + bytes(156)) == (12, 13)
    assert image_size(b"\xff\xd8" + b"\xff" * 1_000_000) is None
    assert image_size(b"") is None


@pytest.mark.parametrize("side", [12_000, 100_000])
def test_a_picture_too_large_is_refused_before_it_is_decoded(side):
    with pytest.raises(MediaError, match=rf"x.png: is too large: {side} x {side} pixels, at most 100000000"):
        read_photo(png_bomb(side, side), "x.png", 300)


def test_a_frame_too_large_is_refused(tmp_path):
    write_video(tmp_path / "v.avi", 0, n_frames=3)
    with pytest.raises(MediaError, match="too large: 64 x 64 pixels, at most 4000"):
        next(video_frames(tmp_path / "v.avi", "v.avi", None, 4000))


def test_a_bomb_counts_as_a_damaged_file(tmp_path, capsys):
    folder = picture_folder(tmp_path / "data", 1, 4)
    (folder / "class0" / "bomb.png").write_bytes(png_bomb(30_000, 30_000))
    with pytest.raises(MediaError, match=r"class0/bomb.png: is too large"):
        extract(open_source(folder), small(), tmp_path / "v.npy", n_jobs=1)
    assert extract(open_source(folder), small(), tmp_path / "v.npy", on_error="skip", n_jobs=1).n_rows == 4
    assert "skipped class0/bomb.png: is too large" in capsys.readouterr().err
    with pytest.raises(MediaError, match="40 x 40 pixels, at most 1000"):
        extract(open_source(folder), small(), tmp_path / "w.npy", n_jobs=1, max_pixels=1000)


def test_a_damaged_member_and_one_that_expands_without_end_can_be_skipped(tmp_path, monkeypatch):
    archive = zip_of(picture_folder(tmp_path / "data", 1, 5), tmp_path / "d.zip")
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("class0/bomb.png", bytes(3_000_000))
        file.writestr("class0/flipped.png", bytes(1000))
        place = file.getinfo("class0/flipped.png").header_offset
    content = bytearray(archive.read_bytes())
    content[place + 30 + len("class0/flipped.png") + 3] ^= 0xFF
    archive.write_bytes(content)
    monkeypatch.setattr(readers, "MAX_IMAGE_BYTES", 1_000_000)
    source = open_source(archive)
    with pytest.raises(OSError, match=r"d.zip: can't read class0/bomb.png \(3000000 bytes are too many"):
        source.read(Item("class0/bomb.png"))
    with pytest.raises(OSError, match=r"d.zip: can't read class0/flipped.png"):
        source.read(Item("class0/flipped.png"))
    done = extract(source, small(), tmp_path / "v.npy", on_error="skip", n_jobs=1)
    assert (done.n_rows, len(done.skipped)) == (5, 2)


@pytest.mark.parametrize("name", ["../evil.png", "a/../../evil.png", "/etc/evil.png", "C:\\evil.png", "..\\evil.png"])
def test_names_that_climb_out_of_a_zip_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("fine.png", b"")
        archive.writestr(name, b"")
    with pytest.raises(ValueError, match=r"d.zip: the name .* leads out of the data set"):
        open_source(tmp_path / "d.zip")


@pytest.mark.parametrize("name", ["a\nb.png", "a\x1b[31mb.png", "a\u2028b.png", "tab\tbed.png"])
def test_names_with_control_characters_are_refused(tmp_path, name):
    write_picture(tmp_path / "data" / "class0" / name, 0)
    with pytest.raises(ValueError, match="holds a control character") as caught:
        open_source(tmp_path / "data")
    assert str(caught.value).isprintable()
    with pytest.raises(ValueError, match="holds a control character"):
        Source(tmp_path, "image", (Item("fine.png", 0, name),))


def test_names_that_are_not_utf8_are_refused(tmp_path):
    write_picture(tmp_path / "data" / os.fsdecode(b"caf\xe9.png"), 0)
    with pytest.raises(ValueError, match="not UTF-8"):
        open_source(tmp_path / "data")


def test_names_with_markup_and_joined_letters_are_kept(tmp_path):
    names = ["[/b].png", "[red]<b>&amp;'; DROP TABLE x;--.png", "\U0001f468\u200d\U0001f469.png", "~.png"]
    for i, name in enumerate(sorted(names)):
        write_picture(tmp_path / "data" / "[/b]" / name, i)
    extract(open_source(tmp_path / "data"), small(), tmp_path / "v.npy", n_jobs=1)
    assert (tmp_path / "v.files.txt").read_text("utf-8").splitlines() == [f"[/b]/{name}" for name in sorted(names)]
    assert (tmp_path / "v.classes.txt").read_text() == "0\t[\n"


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path):
    folder = picture_folder(tmp_path / "data", 1, 2)
    (folder / "class0" / "inside.png").symlink_to(folder / "class0" / "00.png")
    assert len(open_source(folder).items) == 3
    write_picture(tmp_path / "secret.png", 1)
    (folder / "class0" / "out.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(ValueError, match=r"class0/out.png is a link to a file outside of the folder"):
        open_source(folder)


def test_a_pipe_is_told_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="neither a folder nor a zip file"):
        open_source(tmp_path / "pipe.png")
    write_picture(tmp_path / "a.png", 0)
    assert [item.file for item in open_source(tmp_path).items] == ["a.png"]
    with pytest.raises(OSError, match="not a regular file"):
        Source(tmp_path, "image", (Item("pipe.png"),)).read(Item("pipe.png"))


def test_a_table_with_labels_beyond_64_bits_or_files_twice_is_refused(tmp_path):
    folder = picture_folder(tmp_path / "data", 1, 1)
    path = zip_of(folder, tmp_path / "d.zip", f"file,label\nclass0/00.png,{2**63}\n")
    with pytest.raises(ValueError, match=r"label of class0/00.png does not fit in 64 bits"):
        open_source(path)
    path = zip_of(folder, tmp_path / "e.zip", "file\nclass0/00.png\nclass0/00.png\n")
    with pytest.raises(ValueError, match=r"names the file 'class0/00.png' twice"):
        open_source(path)


def test_a_flat_folder_has_no_classes(tmp_path):
    for i in range(3):
        write_picture(tmp_path / "data" / f"{i}.png", i)
    done = extract(open_source(tmp_path / "data"), small(), tmp_path / "v.npy", n_jobs=1)
    assert done.n_classes == 0
    np.testing.assert_array_equal(np.load(tmp_path / "v.labels.npy"), [-1, -1, -1])
    assert (tmp_path / "v.classes.txt").read_text() == ""
