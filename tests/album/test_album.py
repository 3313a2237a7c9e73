"""The album: what is found, what an update does to what is there, and what is refused."""

import contextlib
import os
import shutil
import sqlite3
import sys

import cv2
import numpy as np
import pytest

import projbank
from projbank.album import Album, AlbumError, learn
from projbank.album.album import similarities
from projbank.album.duplicates import find_duplicates
from projbank.album.store import Store
from projbank.extras import install
from tests.album.photos import folder_of, scene, write, write_scene


def state(album):
    """What the album knows, without numbers that depend on the order of work."""
    store = Store(album.folder / "album.sqlite")
    model = store.model()
    ids, codes = store.codes(model)
    found = {}
    for number, code in zip(ids.tolist(), codes, strict=True):
        content = store.content(number)
        for file in store.files_of(number):
            found[file.path] = (content, file, code.tobytes())
    problems = store.problems()
    store.close()
    return found, problems, model.identity


def first(hits):
    return hits[0].path, round(hits[0].score, 6)


def test_a_photo_of_the_album_is_its_own_first_hit(album):
    for seed in range(30):
        path = f"{seed % 3}/{seed:03d}.jpg"
        hits = album.find(album.root / path, k=4)
        assert first(hits) == (path, 1.0)
        assert len(hits) == 4
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert first(album.find((album.root / path).read_bytes(), k=1)) == (path, 1.0)


def test_a_changed_copy_finds_its_original(album, tmp_path):
    for seed in (0, 7, 19):
        write(tmp_path / "query.png", scene(seed)[4:, 4:])
        assert album.find(tmp_path / "query.png", k=1)[0].path == f"{seed % 3}/{seed:03d}.jpg"


def test_numbers_of_results_and_least_similarity(album):
    query = album.root / "0" / "000.jpg"
    assert len(album.find(query, k=1000)) == 30
    every = album.find(query, k=1000)
    for least in (0.0, 0.2, 1.0, 1.1):
        expected = [hit for hit in every if hit.score >= least]
        assert album.find(query, k=1000, min_similarity=least) == expected
        assert album.find(query, k=3, min_similarity=least) == expected[:3]
    content = every[0].content
    assert [hit.content for hit in album.like(content, k=5)] != []
    assert content not in [hit.content for hit in album.like(content, k=100)]
    with pytest.raises(FileNotFoundError, match="photo 1000000 is not in the album"):
        album.like(10**6)
    with pytest.raises(ValueError, match="'k' parameter"):
        album.find(query, k=0)


def test_several_pictures_find_what_is_like_all_of_them(album):
    both = [album.root / "0" / "000.jpg", album.root / "1" / "001.jpg"]
    hits = album.find(both, k=5)
    assert {hit.path for hit in hits[:2]} == {"0/000.jpg", "1/001.jpg"}
    others = album.find(both, k=30)[2:]
    singles = [{hit.path: hit.score for hit in album.find(one, k=30)} for one in both]
    means = [np.mean([scores[hit.path] for scores in singles]) for hit in others]
    assert np.corrcoef(means, [hit.score for hit in others])[0, 1] > 0.9
    with pytest.raises(ValueError, match="at least one picture"):
        album.find([])


def test_similarity_is_the_weighted_share_of_agreeing_bits():
    rng = np.random.default_rng(0)
    query, bits = rng.normal(size=21).astype(np.float32), rng.integers(0, 2, (50, 21))
    codes = np.packbits(bits, axis=1, bitorder="little")
    agree = np.where((query > 0) == bits, np.abs(query), -np.abs(query)).sum(axis=1) / np.abs(query).sum()
    np.testing.assert_allclose(similarities(query, codes), agree, atol=1e-6)
    own = np.packbits(query[None] > 0, axis=1, bitorder="little")
    assert np.isclose(similarities(query, own)[0], 1)
    assert similarities(np.zeros(21, np.float32), codes).tolist() == [0] * 50


def test_a_second_update_changes_nothing(album):
    before = state(album)
    done = album.update()
    assert (done.photos, done.described, done.copied, done.gone) == (30, 0, 0, 0)
    assert state(album) == before


def test_moved_copied_touched_changed_new_and_gone_files(album):
    root, before = album.root, state(album)[0]
    (root / "0" / "000.jpg").rename(root / "moved.jpg")
    shutil.copy(root / "1" / "001.jpg", root / "copy.jpg")
    os.utime(root / "2" / "002.jpg", ns=(1, 1))
    write_scene(root / "0" / "003.jpg", 500)
    write_scene(root / "new.jpg", 501)
    (root / "1" / "004.jpg").unlink()
    done = album.update()
    assert (done.photos, done.described, done.copied, done.gone) == (31, 2, 3, 2)
    after = state(album)[0]
    assert after["moved.jpg"][2] == before["0/000.jpg"][2]
    assert after["copy.jpg"][2] == after["1/001.jpg"][2] == before["1/001.jpg"][2]
    assert after["2/002.jpg"][2] == before["2/002.jpg"][2]
    assert after["0/003.jpg"][2] != before["0/003.jpg"][2]
    assert "1/004.jpg" not in after
    assert {hit.path for hit in album.find(root / "copy.jpg", k=2)} == {"copy.jpg", "1/001.jpg"}
    assert first(album.find(root / "new.jpg")) == ("new.jpg", 1.0)


def test_files_that_change_after_an_update_are_not_given_as_answers(album):
    query = (album.root / "0" / "000.jpg").read_bytes()
    write_scene(album.root / "0" / "000.jpg", 900)
    (album.root / "1" / "001.jpg").unlink()
    paths = [hit.path for hit in album.find(query, k=100)]
    assert len(paths) == 28
    assert not {"0/000.jpg", "1/001.jpg"} & set(paths)


def test_nothing_is_skipped_in_silence(album, tmp_path):
    root = album.root
    (root / "damaged.jpg").write_bytes((root / "0" / "000.jpg").read_bytes()[:900])
    (root / "text.png").write_text("no picture")
    (root / "empty.gif").touch()
    (root / "notes.txt").touch()
    (root / "clip.mp4").touch()
    (root / "out.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    (root / "odd\n.jpg").write_bytes((root / "0" / "000.jpg").read_bytes())
    (root / ".hidden.jpg").touch()
    write_scene(root / "large.png", 3, side=20)
    done = album.update()
    assert done.photos == 31
    assert dict(done.others) == {".txt": 1, ".mp4": 1}
    assert {path for path, _ in done.problems} == {"damaged.jpg", "text.png", "empty.gif", "out.jpg", "odd\n.jpg"}
    assert all(reason for _, reason in done.problems)
    again = album.update()
    assert (again.described, again.problems) == (0, done.problems)
    write_scene(root / "damaged.jpg", 77)
    assert "damaged.jpg" not in dict(album.update().problems)
    assert album.find(root / "damaged.jpg", k=1)[0].path == "damaged.jpg"


def test_learning_anew_answers_by_the_old_codes_until_it_is_whole(album, monkeypatch):
    monkeypatch.setattr(learn, "MOST", 20)  # so that most photos are coded after learning
    folder_of(album.root, 20, start=100)
    album.update()
    before, seen = state(album), []

    def report(stage, done, total):
        if stage == "describing" and done == 1:
            seen.append((len(album.find(album.root / "0" / "000.jpg", k=100)), album.codes().model.n_bits))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Album(album.root, n_bits=128, n_jobs=1).update(relearn=True, report=report)
    assert seen == [(50, 256)]
    assert state(album) == before
    assert len(list(album.folder.glob("model-*.safetensors"))) == 2
    done = album.update()  # goes on with what is learnt
    assert (done.relearnt, done.learnt_from, done.photos, done.n_bits, done.described) == (True, 20, 50, 128, 30)
    assert len(list(album.folder.glob("model-*.safetensors"))) == 1
    assert first(album.find(album.root / "0" / "102.jpg")) == ("0/102.jpg", 1.0)


def test_an_album_says_when_it_has_outgrown_its_codes(tmp_path):
    root = folder_of(tmp_path / "photos", 4)
    album = Album(root, describer="sift", n_bits=64, n_jobs=1)
    assert not album.update().outgrown
    folder_of(root, 20, start=50)
    assert album.update().outgrown
    assert not album.update(relearn=True).outgrown


@pytest.mark.parametrize("n", [1, 2])
def test_the_smallest_albums_work(tmp_path, n):
    root = folder_of(tmp_path / "photos", n)
    album = Album(root, describer="sift", n_jobs=1)
    assert album.update().photos == n
    assert first(album.find(root / "0" / "000.jpg")) == ("0/000.jpg", 1.0)
    assert len(album.find(root / "0" / "000.jpg")) == n


def test_an_album_without_photos(tmp_path):
    album = Album(tmp_path, describer="sift", n_jobs=1)
    with pytest.raises(AlbumError, match="is no album yet; make it with: projbank album"):
        album.find(b"x")
    assert album.update().photos == 0
    with pytest.raises(AlbumError, match="has learnt nothing yet"):
        album.find(b"x")
    (tmp_path / "bad.jpg").write_bytes(b"bad")
    with pytest.raises(AlbumError, match="none of its 1 photos can be described"):
        album.update()


def test_wrong_folders_and_pictures_are_named(album, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Album(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError, match="is a file"):
        Album(album.root / "0" / "000.jpg")
    with pytest.raises(ValueError, match="'describer' parameter"):
        Album(album.root, describer="magic")
    with pytest.raises(FileNotFoundError, match="no such file"):
        album.find(tmp_path / "nowhere.jpg")
    with pytest.raises(ValueError, match="the picture: can't be decoded"):
        album.find(b"no picture")


def test_the_files_of_another_album_are_not_mistaken(album, tmp_path):
    other = Album(folder_of(tmp_path / "other", 5, start=200), describer="sift", n_bits=256, n_jobs=1)
    other.update()
    shutil.copy(other.folder / "model-1.safetensors", album.folder / "model-1.safetensors")
    with pytest.raises(AlbumError, match="but the codes are of MediaCoder:"):
        album.find(album.root / "0" / "000.jpg")


def test_a_damaged_or_newer_index_is_one_clear_error(album):
    index = album.folder / "album.sqlite"
    with sqlite3.connect(index) as sql:
        sql.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    with pytest.raises(AlbumError, match="written by a newer projbank"):
        Album(album.root).find(b"")
    index.write_bytes(b"SQLite format 3\0" + bytes(5000))
    for path in album.folder.glob("album.sqlite-*"):
        path.unlink()
    with pytest.raises(AlbumError, match="is damaged"):
        Album(album.root).find(b"")


def _use(album):
    album.find(album.root / "2" / "005.jpg", include_self=False)
    find_duplicates(album)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE models SET file = '../../precious.txt'",
        "UPDATE models SET n_bits = 1000000000000",
        "UPDATE codes SET code = 'text'",
        "UPDATE codes SET code = zeroblob(31)",
        "UPDATE contents SET look = zeroblob(1)",
        "UPDATE contents SET hash = CAST(id AS TEXT)",
        "UPDATE files SET size = 'many'",
    ],
)
def test_rows_that_lie_are_one_clear_error(album, statement):
    index = album.folder / "album.sqlite"
    with contextlib.closing(sqlite3.connect(index)) as sql, sql:
        sql.execute(statement)
    with pytest.raises(AlbumError, match="is damaged"):
        _use(album)


def test_a_model_of_a_hostile_album_removes_nothing(album):
    """Its older models are removed by a new one, under the names that the album gives."""
    precious = album.root.parent / "precious.txt"
    precious.write_text("mine")
    with contextlib.closing(sqlite3.connect(album.folder / "album.sqlite")) as sql, sql:
        sql.execute("INSERT INTO models VALUES (0, '../../precious.txt', 'x', 'x', 8, 1)")
    with pytest.raises(AlbumError, match="is damaged"):
        album.update(relearn=True)
    assert precious.read_text() == "mine"


def test_photos_are_never_changed(album):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in album.root.glob("*/*.jpg")}
    write_scene(album.root / "new.jpg", 600)
    album.update(relearn=True)
    album.find(album.root / "new.jpg")
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in album.root.glob("?/*.jpg")} == before
    assert {path.name for path in album.root.iterdir()} == {"0", "1", "2", "new.jpg", ".projbank"}


def test_processes_change_nothing(made, tmp_path, monkeypatch):
    monkeypatch.setattr(learn, "MOST", 8)
    found = []
    for n_jobs in (1, 2):
        root = tmp_path / str(n_jobs)
        shutil.copytree(made, root, ignore=shutil.ignore_patterns(".projbank"))
        album = Album(root, describer="sift", n_bits=64, n_jobs=n_jobs)
        assert album.update().photos == 30
        found.append({path: row[2] for path, row in state(album)[0].items()})
    assert found[0] == found[1]


def test_it_is_a_public_name():
    assert projbank.Album is Album


def test_heic_photos_wait_for_their_package(album, monkeypatch):
    heif, image = pytest.importorskip("pillow_heif"), pytest.importorskip("PIL.Image")
    path = album.root / "phone.heic"
    heif.from_pillow(image.fromarray(scene(40)[:, :, ::-1].copy())).save(path, quality=90)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pillow_heif", None)
        problems = dict(album.update().problems)
        assert problems == {"phone.heic": f"HEIC needs more packages: {install('heic')}."}
        assert album.update().problems == list(problems.items())
    done = album.update()
    assert (done.photos, done.problems) == (31, [])
    assert first(album.find(path)) == ("phone.heic", 1.0)
    assert album.find(jpeg(scene(40)), k=1)[0].path == "phone.heic"


@pytest.mark.parametrize("turned", [1, 3, 6, 8])
def test_photos_that_are_turned_by_exif_are_the_same_picture(album, turned):
    image = pytest.importorskip("PIL.Image")
    exif = image.Exif()
    exif[0x0112] = turned
    turns = {1: 0, 3: 2, 6: 1, 8: 3}[turned]
    stored = np.rot90(scene(41)[:, :, ::-1], turns)  # EXIF turns it back
    image.fromarray(np.ascontiguousarray(stored)).save(album.root / "turned.jpg", quality=95, exif=exif)
    album.update()
    hit = album.find(jpeg(scene(41)), k=1)[0]
    assert hit.path == "turned.jpg"
    assert hit.score > 0.8
    content = album.store.content(hit.content)
    assert (content.orientation, content.width, content.height) == (turned, 96, 96)


def jpeg(image):
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()


def test_an_album_of_the_net(tmp_path, monkeypatch):
    from projbank.features import net

    root = folder_of(tmp_path / "photos", 5)
    with monkeypatch.context() as without:
        without.setattr(net, "NEEDS", ("not_installed_anywhere",))
        with pytest.raises(ImportError, match=r"\[photos\]"):
            Album(root, describer="net", n_jobs=1).update()
    if not net.ConvMaps.is_installed():
        pytest.skip('needs the extra "photos"')
    album = Album(root, n_jobs=1)  # "auto" takes what is installed
    done = album.update()
    assert (done.photos, done.describer) == (5, "EfficientNet-lite0")
    assert first(album.find(root / "0" / "003.jpg")) == ("0/003.jpg", 1.0)
