"""Duplicates: generated near-duplicates are found, other photos are not; the best of a group comes first."""

import os
import shutil

import cv2
import numpy as np
import pytest

from projbank.album import Album
from projbank.album.compare import correlation, is_same_picture, look_of, mirrored, points_of
from projbank.album.duplicates import NEAR, SAME, SIMILAR, find_duplicates
from tests.album.photos import folder_of, scene, write, write_scene


def watermarked(image):
    marked = image.copy()
    cv2.putText(marked, "photo", (image.shape[1] // 4, image.shape[0] // 2), 0, 0.8, (255, 255, 255), 2)
    return marked


def changed(image):
    """An image changed in each of the ways that make near-duplicates."""
    side = len(image)
    return {
        "crop": image[side // 16 : side - side // 16, side // 12 :],
        "scale": cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
        "bright": np.clip(image * 1.25 + 15, 0, 255).astype(np.uint8),
        "mirror": np.ascontiguousarray(image[:, ::-1]),
        "watermark": watermarked(image),
        "compressed": cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 30])[1], 1),
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("album") / "photos"
    for seed in range(24):
        write(root / f"{seed:02d}.png", scene(seed, 192))
    for seed in (0, 5, 9):
        for name, image in changed(scene(seed, 192)).items():
            write(root / name / f"{seed:02d}.png", image)
    Album(root, describer="sift", n_bits=512, n_jobs=1).update()
    return root


def test_near_duplicates_are_found_and_nothing_else(root):
    groups = find_duplicates(Album(root), similar_from=2)
    assert {group.kind for group in groups} == {NEAR}
    seeds = [{path[-6:-4] for path in group.paths} for group in groups]
    assert sorted(seeds, key=min) == [{"00"}, {"05"}, {"09"}]
    assert sum(len(group.paths) for group in groups) >= 0.9 * 3 * (1 + len(changed(scene(0))))


def test_similar_photos_are_alike_but_not_the_same_picture(root):
    album = Album(root)
    near = {path: i for i, group in enumerate(find_duplicates(album, similar_from=2)) for path in group.paths}
    for least in (0.2, 0.3):
        for group in find_duplicates(album, similar_from=least):
            if group.kind == SIMILAR:
                assert len({near.get(path, path) for path in group.paths}) > 1
    assert not [group for group in find_duplicates(album, similar_from=1.01) if group.kind == SIMILAR]


def test_the_best_kept_comes_first(album):
    root = album.root
    shutil.copy(root / "0" / "000.jpg", root / "copy.jpg")
    shutil.copy(root / "0" / "000.jpg", root / "a-copy.jpg")
    os.utime(root / "copy.jpg", ns=(1, 1))
    album.update()
    group = find_duplicates(album, similar_from=2)[0]
    assert (group.kind, group.best) == (SAME, "copy.jpg")  # the oldest
    assert set(group.paths) == {"copy.jpg", "a-copy.jpg", "0/000.jpg"}
    write(root / "large.png", cv2.resize(scene(0), None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC))
    album.update()
    near = next(group for group in find_duplicates(album, similar_from=2) if group.kind == NEAR)
    assert near.best == "large.png"  # the most pixels
    (root / "large.png").unlink()
    assert not [group for group in find_duplicates(album, similar_from=2) if group.kind == NEAR]


@pytest.mark.parametrize("n", [1, 2])
def test_the_smallest_albums(tmp_path, n):
    album = Album(folder_of(tmp_path / "photos", n), describer="sift", n_bits=64, n_jobs=1)
    album.update()
    assert find_duplicates(album, similar_from=2) == []


def test_key_points_of_the_mirrored_photo_are_its_own():
    noise = np.random.default_rng(0).integers(0, 256, (40, 50)).astype(np.uint8)
    grey = cv2.resize(noise, (250, 200), interpolation=cv2.INTER_CUBIC)
    turned, found = points_of(grey).mirrored(), points_of(np.ascontiguousarray(grey[:, ::-1]))
    np.testing.assert_array_equal(turned.grey, found.grey)
    distances = np.abs(turned.places[:, None] - found.places[None]).sum(axis=2)
    kept, near = distances.min(axis=1) < 1.5, distances.argmin(axis=1)
    assert kept.sum() > 50
    a, b = turned.descriptors[kept].astype(float), found.descriptors[near[kept]].astype(float)
    cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert np.median(cosines) > 0.95


def test_photos_without_texture_are_compared_as_they_lie():
    y, x = np.mgrid[:100, :100]
    slope = (2 * x + y / 2).clip(0, 255).astype(np.uint8)
    one, brighter, other = (points_of(image) for image in (slope, (slope * 0.8).astype(np.uint8) + 30, slope.T.copy()))
    assert is_same_picture(one, brighter)
    assert not is_same_picture(one, other)
    flat = points_of(np.full((50, 50), 9, np.uint8))
    assert not is_same_picture(flat, one)


def test_correlation_leaves_out_what_fits_least():
    rng = np.random.default_rng(0)
    one = rng.normal(size=1000).astype(np.float32)
    other = 3 * one + 7
    assert np.isclose(correlation(one, other), 1)
    other[:100] = 50
    assert correlation(one, other) < 0.8
    assert correlation(one, other, left_out=0.15) > 0.999
    noise = rng.normal(size=1000).astype(np.float32)
    assert np.isclose(correlation(one, noise), np.corrcoef(one, noise)[0, 1], atol=1e-5)


def test_a_look_survives_scaling_and_turns_with_the_photo():
    image = scene(2, 200)
    look = look_of(image)
    assert look.shape == (32,)
    small = look_of(cv2.resize(image, (70, 70), interpolation=cv2.INTER_AREA))
    assert np.unpackbits(look ^ small).sum() < 30
    turned = look_of(np.ascontiguousarray(image[:, ::-1]))
    assert np.unpackbits(mirrored(look[None])[0] ^ turned).sum() < 30  # only where neighbours are equal
    np.testing.assert_array_equal(mirrored(mirrored(look[None])), look[None])


def test_a_photo_that_was_mirrored_and_one_that_was_not_are_one_group(album):
    write_scene(album.root / "twice.png", 1)
    write(album.root / "turned.png", scene(1)[:, ::-1])
    album.update()
    groups = [set(group.paths) for group in find_duplicates(album, similar_from=2)]
    assert groups == [{"1/001.jpg", "twice.png", "turned.png"}]
