"""`projbank album` and `projbank find`."""

import json
import shutil

import cv2
import pytest

from tests.album.photos import folder_of, write_scene


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("album") / "photos", 12)


@pytest.fixture
def root(projbank, made, tmp_path):
    if not (made / ".projbank").exists():
        assert projbank("album", made, "--describer", "sift", "--bits", 128, "-j", 1)[0] == 0
    shutil.copytree(made, tmp_path / "photos")
    return tmp_path / "photos"


def test_names_with_markup_and_terminal_codes(projbank, root):
    """Markup is a name; a name with terminal codes is not taken in, and told with its codes written out."""
    photo = root / "0" / "000.jpg"
    shutil.copy(photo, root / "[red]<b>[bold]:smile:.jpg")
    shutil.copy(photo, root / "a\x1b[31m.jpg")
    code, out, _ = projbank("album", root, "-j", 1)
    assert code == 0
    assert "\x1b" not in out
    assert r"a\x1b[31m.jpg: has a name with control characters" in out
    assert "[red]<b>[bold]:smile:.jpg" in projbank("find", root, photo, "-k", 2)[1]
    assert "[red]<b>[bold]:smile:.jpg" in projbank("duplicates", root)[1]


def test_two_commands_from_photos_to_an_answer(projbank, tmp_path):
    root = folder_of(tmp_path / "photos", 12)
    (root / "bad.jpg").write_bytes(b"bad")
    (root / "film.mov").touch()
    code, out, err = projbank("album", root, "--describer", "sift", "-j", 1)
    assert (code, err) == (0, "")
    assert "12 photos, codes of 1024 bits (dense SIFT, Fisher vectors)" in out
    assert "12 described" in out
    assert "not photos: 1 .mov" in out
    assert "bad.jpg: can't be decoded as an image." in out
    query = root / "0" / "000.jpg"
    code, out, err = projbank("find", root, query, "-k", 3)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert len(lines) == 3
    assert lines[0] == ["1.0000", str(query)]


def test_a_second_run_says_what_changed(projbank, root):
    code, out, _ = projbank("album", root)
    assert code == 0
    assert "nothing has changed" in out
    write_scene(root / "new.jpg", 300)
    (root / "0" / "000.jpg").rename(root / "moved.jpg")
    code, out, _ = projbank("album", root)
    assert "1 described, 1 moved or copied, 1 gone" in out


def test_json_and_least_similarity(projbank, root):
    query = root / "0" / "000.jpg"
    code, out, _ = projbank("find", root, query, "-k", 12, "--json")
    assert code == 0
    found = json.loads(out)
    assert found[0] == {"path": str(query), "score": 1.0}
    assert len(found) == 12
    code, out, _ = projbank("find", root, query, "--json", "--min-similarity", 0.999)
    assert [one["path"] for one in json.loads(out)] == [str(query)]


def test_a_contact_sheet(projbank, root, tmp_path):
    code, _, err = projbank("find", root, root / "0" / "000.jpg", "-k", 5, "--picture", tmp_path / "hits.png")
    assert (code, err) == (0, "")
    sheet = cv2.imread(str(tmp_path / "hits.png"))
    assert sheet.shape[1] > sheet.shape[0] > 200
    assert sheet.std() > 20
    for name in ("0/003.jpg", "0/new.txt"):
        code, _, err = projbank("find", root, root / "0" / "000.jpg", "--picture", root / name)
        assert code == 2
        assert err.startswith("projbank: error: cannot write")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("find", "{}/0", "{}/0/000.jpg"), "is no album yet; make it with: projbank album"),
        (("find", "{}", "{}/nowhere.jpg"), "no such file"),
        (("find", "{}", "{}/0/000.jpg", "-k", "0"), "'k' parameter"),
        (("find", "{}/nowhere", "{}/0/000.jpg"), "no such folder"),
        (("album", "{}/0/000.jpg"), "is a file, not a folder"),
        (("album", "{}", "--bits", "3"), "'n_bits' parameter"),
    ],
)
def test_bad_input_is_one_line(projbank, root, words, message):
    code, _, err = projbank(*(word.format(root) for word in words))
    assert code == 2
    assert err.startswith("projbank: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_duplicates(projbank, root):
    shutil.copy(root / "0" / "000.jpg", root / "copy.jpg")
    projbank("album", root)
    code, out, err = projbank("duplicates", root, "--similar", 2)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "the same picture:"
    assert sorted(line.lstrip(" *") for line in out.splitlines()[1:3]) == sorted(
        str(root / name) for name in ("0/000.jpg", "copy.jpg")
    )
    assert out.count("*") == 1
    code, out, _ = projbank("duplicates", root, "--similar", 2, "--json")
    (group,) = json.loads(out)
    assert group["kind"] == "same"
    assert group["best"] in group["paths"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "70000"), "--port must be in the range"),
        (("--host", "example.org"), "--host must be an IP address"),
        (("--host", "203.0.113.9", "--port", "0"), "cannot listen at"),
    ],
)
def test_what_can_not_be_served_is_one_line(projbank, root, words, message):
    code, _, err = projbank("serve", root, *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
