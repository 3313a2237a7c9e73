"""Decoding of photos: right way up, small while decoding, damaged and cut files named; Pillow is the reference."""

import io

import numpy as np
import pytest

from projbank.features.media import MediaError, orientation, read_photo, upright

Image = pytest.importorskip("PIL.Image")
from PIL import ImageOps  # noqa: E402 - Pillow comes with the tests' other packages


def smooth(width=48, height=32):
    y, x = np.mgrid[:height, :width]
    return np.stack([255 * x / width, 255 * y / height, 128 + 100 * np.sin(x / 9)], axis=2).astype(np.uint8)


def encoded(image, kind, **options):
    out = io.BytesIO()
    Image.fromarray(image).save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_photos_come_upright(kind, value):
    exif = Image.Exif()
    exif[0x0112] = value
    data = encoded(smooth(), kind, exif=exif, **({} if kind == "PNG" else {"quality": 95}))
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))[:, :, ::-1]
    photo = read_photo(data, "x")
    assert photo.orientation == value
    assert (photo.height, photo.width) == expected.shape[:2]
    assert np.abs(photo.image.astype(int) - expected).mean() < 2
    grey = read_photo(data, "x", colour=False).image
    assert grey.shape == expected.shape[:2]
    for cut in range(0, len(data), 11):
        assert 1 <= orientation(data[:cut]) <= 8  # never raises


def test_turning_twice_gives_back_the_picture():
    image = smooth(5, 3)
    for value, back in {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}.items():
        np.testing.assert_array_equal(upright(upright(image, value), back), image)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("side", [None, 20, 300, 1000])
def test_formats_and_sizes(kind, side):
    photo = read_photo(encoded(smooth(900, 600), kind), "x", side)
    assert (photo.width, photo.height) == (900, 600)
    longest = 900 if side is None else min(side, 900)
    assert photo.image.shape == (round(longest * 2 / 3), longest, 3)
    reference = np.asarray(Image.fromarray(smooth(900, 600)).resize(photo.image.shape[1::-1], Image.Resampling.BOX))
    assert np.abs(photo.image[:, :, ::-1].astype(int) - reference).mean() < (
        20 if kind == "GIF" else 5
    )  # a GIF has 256 colours


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
def test_cut_files_are_errors_or_whole(kind):
    data = encoded(smooth(), kind)
    for part in (0, 10, len(data) // 2):
        with pytest.raises(MediaError, match=r"holiday.x: (can't be decoded|is cut short)"):
            read_photo(data[:part], "holiday.x")


def test_a_photo_with_a_preview_inside_is_seen_to_be_cut():
    exif = b"Exif\0\0" + encoded(smooth(8, 8), "JPEG")  # an end mark before the picture itself
    data = encoded(smooth(300, 200), "JPEG", exif=exif)
    read_photo(data, "x")
    with pytest.raises(MediaError, match="is cut short"):
        read_photo(data[: len(data) * 3 // 4], "x")
    read_photo(data + b"more bytes behind the picture", "x")


def test_heic_needs_the_extra_and_works_with_it():
    heif = pytest.importorskip("pillow_heif")
    out = io.BytesIO()
    heif.from_pillow(Image.fromarray(smooth(200, 100))).save(out, quality=90)
    photo = read_photo(out.getvalue(), "x.heic", 50)
    assert (photo.width, photo.height, photo.image.shape) == (200, 100, (25, 50, 3))
    with pytest.raises(MediaError, match="too large: 200 x 100 pixels, at most 19999"):
        read_photo(out.getvalue(), "x.heic", max_pixels=19_999)
    with pytest.raises(MediaError, match="can't be decoded"):
        read_photo(out.getvalue()[:300], "x.heic")
