"""Data sets by path and by TOML file, their folds, and vectors made from pictures and videos."""

import numpy as np
import pytest

from projbank.paper.reproduce import prepare
from projbank.paper.sets import SetFiles, read_sets, ucf101_folds
from tests.features.media_files import picture_folder, write_video


@pytest.fixture
def vectors(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 3), np.float32))
    np.save(tmp_path / "x.labels.npy", np.arange(4))
    return tmp_path / "x.npy"


def test_a_vectors_file_brings_what_stands_beside_it(vectors):
    np.save(vectors.with_name("x.split.npy"), [1, 0, 1, 2])
    (one,) = read_sets([vectors])
    data = one.open()
    assert (one.name, data.vectors.shape, data.labels.tolist()) == ("x", (4, 3), [0, 1, 2, 3])
    ((train, test),) = one.fold_rows(4)
    assert (train.tolist(), test.tolist()) == ([0, 2], [1, 3])


def test_a_toml_file_names_several_sets(vectors):
    np.save(vectors.with_name("y.npy"), np.ones((4, 2), np.float32))
    text = """
    [first]
    vectors = "x.npy"
    kind = "fv"
    title = "First"
    only = ["retrieval"]
    [second]
    vectors = "y.npy"
    labels = "x.labels.npy"
    queries = 2
    """
    path = vectors.with_name("sets.toml")
    path.write_text(text)
    first, second = read_sets([path])
    assert (first.name, first.title, first.kind, first.only) == ("first", "First", "fv", ("retrieval",))
    assert second.open().labels.tolist() == [0, 1, 2, 3]
    assert (first.n_queries(4), second.n_queries(4), first.n_queries(1865)) == (1, 2, 1000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no data set"),
        ("x = 3", "x must be a table"),
        ("[a", "not a TOML file"),
        ("[a]\nvektors = 'x.npy'", "may have .* Got 'vektors'"),
        ("[a]\ntitle = 'x'", "must have either vectors or source"),
        ("[a]\nvectors = 'none.npy'", "none.npy: no such file or folder"),
        ("[a]\nvectors = 'x.npy'\nkind = 'gist'", "kind must be 'fv' or 'vlad'. Got 'gist'"),
    ],
)
def test_bad_toml_files_are_explained(vectors, text, message):
    path = vectors.with_name("sets.toml")
    path.write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_sets([path])


def test_two_sets_of_one_name_are_refused(vectors):
    with pytest.raises(ValueError, match="names 'x' twice"):
        read_sets([vectors, vectors])


def ucf101_lists(root, n_classes=2, per_class=6):
    """The official lists for small classes; fold f tests every third video from f on."""
    lists = root / "ucfTrainTestlist"
    lists.mkdir(parents=True)
    names = [[f"Act{c}/v_Act{c}_g{i:02d}_c01.avi" for i in range(per_class)] for c in range(n_classes)]
    (lists / "classInd.txt").write_text("".join(f"{c + 1} Act{c}\n" for c in range(n_classes)))
    for fold in (1, 2, 3):
        train, test = "", ""
        for c, files in enumerate(names):
            train += "".join(f"{f} {c + 1}\r\n" for i, f in enumerate(files) if i % 3 != fold - 1)
            test += "".join(f"{f}\r\n" for i, f in enumerate(files) if i % 3 == fold - 1)
        (lists / f"trainlist0{fold}.txt").write_text(train)
        (lists / f"testlist0{fold}.txt").write_text(test + "\n")
    return [name for files in names for name in files]


def test_ucf101s_three_folds_come_from_its_lists(tmp_path):
    names = ucf101_lists(tmp_path)
    files = [f"UCF-101/{name}" for name in names[::-1]]  # rows in another order than the lists
    folds = ucf101_folds(tmp_path / "ucfTrainTestlist", files)
    assert len(folds) == 3
    for f, (train, test) in enumerate(folds):
        assert sorted([*train, *test]) == list(range(12))
        assert {names.index(files[row].removeprefix("UCF-101/")) % 3 for row in test} == {f}
    assert set(np.concatenate([test for _, test in folds])) == set(range(12))
    with pytest.raises(ValueError, match=r"trainlist01.txt: 1 of its videos have no vector, the first is Act1/"):
        ucf101_folds(tmp_path / "ucfTrainTestlist", files[1:])
    (tmp_path / "ucfTrainTestlist" / "testlist02.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"testlist02\.txt"):
        ucf101_folds(tmp_path / "ucfTrainTestlist", files)


def test_a_split_must_fit_the_vectors(vectors):
    np.save(vectors.with_name("x.split.npy"), [1, 1, 1, 1])
    (one,) = read_sets([vectors])
    with pytest.raises(ValueError, match="must mark training rows by 1 and have test rows too"):
        one.fold_rows(4)
    with pytest.raises(ValueError, match=r"must have a number per vector \(5\)"):
        one.fold_rows(5)


def test_videos_become_vectors_with_the_official_folds(tmp_path):
    root = tmp_path / "UCF"
    for i, name in enumerate(ucf101_lists(root)):
        write_video(root / "UCF-101" / name, i)
    made = prepare(SetFiles("ucf", source=root, components=2, sample=4), tmp_path / "features", 1, 0)
    data = made.open()
    assert data.vectors.shape == (12, 2 * 2 * 426)
    assert len(made.fold_rows(12)) == 3
    before = made.vectors.stat().st_mtime_ns
    again = prepare(SetFiles("ucf", source=root, components=2, sample=4), tmp_path / "features", 1, 0)
    assert again.vectors.stat().st_mtime_ns == before  # not made twice


def test_pictures_become_vectors(tmp_path):
    root = picture_folder(tmp_path / "photos", 2, 3)
    (one,) = read_sets([root])
    made = prepare(SetFiles(one.name, source=one.source, kind="vlad", components=2), tmp_path / "features", 1, 0)
    assert made.open().vectors.shape == (6, 2 * 128)
    assert made.source is None


@pytest.mark.parametrize("descriptor", ["dense-sift", "sift"])
def test_descriptor_and_power_of_pictures_may_be_chosen(tmp_path, descriptor):
    root = picture_folder(tmp_path / "photos", 2, 3)
    lines = [f'[{name}]\nsource = "photos"\nkind = "vlad"\ncomponents = 2\n' for name in ("powered", "plain")]
    words = f'descriptor = "{descriptor}"\n'
    (tmp_path / "sets.toml").write_text(lines[0] + words + lines[1] + words + "alpha = 1.0\n")
    assert root.is_dir()
    powered, plain = (
        np.asarray(prepare(one, tmp_path / "features", 1, 0).open().vectors)
        for one in read_sets([tmp_path / "sets.toml"])
    )
    squares = np.sign(powered) * powered**2  # what was powered is the square root of what was not, up to its length
    lengths = np.linalg.norm(squares, axis=1, keepdims=True)
    np.testing.assert_allclose(plain, squares / np.where(lengths > 0, lengths, 1), atol=1e-5)
