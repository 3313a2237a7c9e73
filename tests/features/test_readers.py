"""Readers on small folders of the data sets' real shapes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from projbank.features.media import MediaError, read_photo, video_frames
from projbank.features.readers import UNLABELLED, open_source
from tests.features.media_files import picture, picture_folder, write_picture, write_video, zip_of


def summary(source):
    return [(item.file, item.label, item.class_name, item.split) for item in source.items]


def test_image_folder_has_a_class_per_subfolder(tmp_path):
    picture_folder(tmp_path, 2, 2)
    write_picture(tmp_path / "loose.png", 9)
    write_picture(tmp_path / "class1" / "deep" / "er.PNG", 8)
    write_picture(tmp_path / ".hidden" / "no.png", 8)
    (tmp_path / "class0" / "notes.txt").write_text("not an image")
    source = open_source(tmp_path)
    assert source.media == "image"
    assert summary(source) == [
        ("class0/00.png", 0, "class0", ""),
        ("class0/01.png", 0, "class0", ""),
        ("class1/00.png", 1, "class1", ""),
        ("class1/01.png", 1, "class1", ""),
        ("class1/deep/er.PNG", 1, "class1", ""),
        ("loose.png", UNLABELLED, "", ""),
    ]
    np.testing.assert_array_equal(read_photo(source.read(source.items[2]), "x", colour=False).image, picture(100))


def test_zip_follows_its_table(tmp_path):
    folder = picture_folder(tmp_path / "data", 2, 2)
    table = "file,label,class,split\nclass1/01.png,7,seven,train\nclass0/00.png,3,three,test\n"
    source = open_source(zip_of(folder, tmp_path / "data.zip", table))
    assert summary(source) == [("class1/01.png", 7, "seven", "train"), ("class0/00.png", 3, "three", "test")]
    assert source.class_names() == {3: "three", 7: "seven"}
    np.testing.assert_array_equal(read_photo(source.read(source.items[0]), "x", colour=False).image, picture(101))
    assert summary(source.select("test")) == [("class0/00.png", 3, "three", "test")]


def test_zip_table_may_have_only_files_and_classes(tmp_path):
    folder = picture_folder(tmp_path / "data", 2, 1)
    source = open_source(zip_of(folder, tmp_path / "d.zip", "file,class\nclass1/00.png,b\nclass0/00.png,a\n"))
    assert [(item.label, item.class_name) for item in source.items] == [(1, "b"), (0, "a")]


def test_zip_without_a_table_takes_folders_as_classes(tmp_path):
    source = open_source(zip_of(picture_folder(tmp_path / "data", 2, 2), tmp_path / "d.zip"))
    assert [item.label for item in source.items] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("file,label\nclass0/09.png,1\n", "labels.csv names 'class0/09.png', which is not in the zip"),
        ("file,label\nclass0/00.png,cat\n", "labels.csv has a label that is not a whole number"),
        ("path,label\nclass0/00.png,1\n", "labels.csv needs a column 'file'"),
    ],
)
def test_a_bad_table_is_refused(tmp_path, table, text):
    path = zip_of(picture_folder(tmp_path / "data", 1, 1), tmp_path / "d.zip", table)
    with pytest.raises(ValueError, match=text):
        open_source(path)


def test_video_folder(tmp_path):
    write_video(tmp_path / "run" / "a.avi", 0, n_frames=3)
    write_video(tmp_path / "walk" / "b.avi", 1, n_frames=4)
    source = open_source(tmp_path)
    assert source.media == "video"
    assert summary(source) == [("run/a.avi", 0, "run", ""), ("walk/b.avi", 1, "walk", "")]
    with source.local_file(source.items[1]) as path:
        frames = list(video_frames(path, "b.avi"))
    assert len(frames) == 4
    assert frames[0].shape == (64, 64)
    assert np.abs(frames[0].astype(int) - picture(1, 256)[:64, :64]).mean() < 8  # JPEG's losses


def test_a_video_in_a_zip_is_read_from_a_copy_that_goes_away(tmp_path):
    write_video(tmp_path / "data" / "run" / "a.avi", 0, n_frames=5)
    source = open_source(zip_of(tmp_path / "data", tmp_path / "v.zip"))
    with source.local_file(source.items[0]) as path:
        assert len(list(video_frames(path, "a.avi"))) == 5
    assert not path.exists()


def make_ucf101(root, videos="UCF-101"):
    for action, group in (("ApplyEyeMakeup", "g08"), ("ApplyEyeMakeup", "g01"), ("YoYo", "g02")):
        file = root / videos / action / f"v_{action}_{group}_c01.avi"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    lists = root / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("1 ApplyEyeMakeup\r\n101 YoYo\r\n")
    train = "ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1\r\nYoYo/v_YoYo_g02_c01.avi 101\r\n"
    test = "ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01.avi\r\n"
    (lists / "trainlist01.txt").write_text(train)
    (lists / "testlist01.txt").write_text(test)
    (lists / "trainlist02.txt").write_text(test.strip() + " 1\r\n")
    (lists / "testlist02.txt").write_text("YoYo/v_YoYo_g02_c01.avi\r\n")
    return root


@pytest.mark.parametrize("videos", ["UCF-101", "."])
def test_ucf101_follows_the_official_lists(tmp_path, videos):
    prefix = "" if videos == "." else "UCF-101/"
    make_ucf101(tmp_path, videos)
    source = open_source(tmp_path)
    assert source.media == "video"
    assert summary(source) == [
        (f"{prefix}ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi", 1, "ApplyEyeMakeup", "train"),
        (f"{prefix}YoYo/v_YoYo_g02_c01.avi", 101, "YoYo", "train"),
        (f"{prefix}ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01.avi", 1, "ApplyEyeMakeup", "test"),
    ]
    second = open_source(tmp_path, fold=2)
    assert [item.split for item in second.items] == ["train", "test"]
    with source.local_file(source.items[0]) as path:
        assert path.exists()


def test_ucf101_says_what_is_missing(tmp_path):
    make_ucf101(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"trainlist03.txt: no such file"):
        open_source(tmp_path, fold=3)
    with pytest.raises(ValueError, match=r"'fold' parameter of ucf101 must be an int in the range \[1, 3\]. Got 4"):
        open_source(tmp_path, fold=4)
    (tmp_path / "ucfTrainTestlist" / "classInd.txt").write_text("1 ApplyEyeMakeup\n")
    with pytest.raises(ValueError, match=r"has no class 'YoYo', which trainlist01.txt names"):
        open_source(tmp_path)


def make_ilsvrc(root):
    synsets = np.array(
        [(1, "n02119789", "kit fox"), (2, "n02100735", "English setter")],
        dtype=[("ILSVRC2010_ID", "O"), ("WNID", "O"), ("words", "O")],
    )
    data = root / "devkit-1.0" / "data"
    data.mkdir(parents=True)
    savemat(data / "meta.mat", {"synsets": synsets.reshape(-1, 1)})
    (data / "ILSVRC2010_validation_ground_truth.txt").write_text("2\n1\n2\n")
    write_picture(root / "train" / "n02119789" / "n02119789_1.JPEG", 0)
    write_picture(root / "train" / "n02100735" / "n02100735_7.JPEG", 1)
    for i in (1, 2, 3):
        write_picture(root / "val" / f"ILSVRC2010_val_0000000{i}.JPEG", i)
    return root


def test_ilsvrc2010_numbers_synsets_as_the_development_kit(tmp_path):
    source = open_source(make_ilsvrc(tmp_path))
    assert summary(source) == [
        ("train/n02100735/n02100735_7.JPEG", 2, "n02100735", "train"),
        ("train/n02119789/n02119789_1.JPEG", 1, "n02119789", "train"),
        ("val/ILSVRC2010_val_00000001.JPEG", 2, "n02100735", "val"),
        ("val/ILSVRC2010_val_00000002.JPEG", 1, "n02119789", "val"),
        ("val/ILSVRC2010_val_00000003.JPEG", 2, "n02100735", "val"),
    ]


def test_ilsvrc2010_refuses_an_image_without_a_line(tmp_path):
    make_ilsvrc(tmp_path)
    write_picture(tmp_path / "val" / "ILSVRC2010_val_00000004.JPEG", 4)
    with pytest.raises(ValueError, match=r"00000004.JPEG has no line among the 3 of ILSVRC2010_validation"):
        open_source(tmp_path)


def test_flickr_groups_take_a_photo_once(tmp_path):
    for file in ("cats/111.jpg", "cats/222.jpg", "dogs/222.jpg", "dogs/a/333.jpg", "stray.jpg"):
        write_picture(tmp_path / file, 0)
    source = open_source(tmp_path, "flickr")
    assert summary(source) == [
        ("cats/111.jpg", 0, "cats", ""),
        ("cats/222.jpg", 0, "cats", ""),
        ("dogs/a/333.jpg", 1, "dogs", ""),
    ]


def test_classes_can_be_left_out(tmp_path):
    source = open_source(picture_folder(tmp_path, 3, 1)).select(exclude=["class1"])
    assert [(item.label, item.class_name) for item in source.items] == [(0, "class0"), (2, "class2")]
    with pytest.raises(ValueError, match=r"names classes that .* lacks: klass"):
        source.select(exclude=["klass"])
    with pytest.raises(ValueError, match=r"'split' parameter must be one that .* has \(none\). Got 'train'"):
        source.select("train")


def test_what_can_not_be_opened_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder"):
        open_source(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no images or videos"):
        open_source(tmp_path)
    (tmp_path / "bad.zip").write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match=r"bad.zip: not a zip file, or damaged"):
        open_source(tmp_path / "bad.zip")
    with pytest.raises(ValueError, match="layout 'ucf101' needs a folder"):
        open_source(tmp_path / "bad.zip", "ucf101")
    with pytest.raises(ValueError, match="'layout' parameter of open_source must be one of 'auto', 'images'"):
        open_source(tmp_path, "mnist")
    with pytest.raises(ValueError, match="'fold' parameter is for UCF101 only"):
        open_source(picture_folder(tmp_path / "x"), fold=1)


def test_a_folder_of_both_must_be_named(tmp_path):
    write_picture(tmp_path / "a" / "a.png", 0)
    write_video(tmp_path / "a" / "a.avi", 0, n_frames=2)
    with pytest.raises(ValueError, match="holds 1 images and 1 videos; name the layout"):
        open_source(tmp_path)
    assert open_source(tmp_path, "videos").media == "video"


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\n broken"])
def test_an_image_that_can_not_be_decoded_is_named(data):
    with pytest.raises(MediaError, match=r"cat.png: can't be decoded as an image"):
        read_photo(data, "cat.png")


def test_a_video_that_can_not_be_decoded_is_named(tmp_path):
    (tmp_path / "x.avi").write_bytes(b"no video")
    with pytest.raises(MediaError, match=r"x.avi: can't be decoded as a video"):
        list(video_frames(tmp_path / "x.avi", "x.avi"))


def test_large_images_are_made_smaller(tmp_path):
    write_picture(tmp_path / "a.png", 0)
    data = (tmp_path / "a.png").read_bytes()
    assert read_photo(data, "a", 20, colour=False).image.shape == (20, 20)
    assert read_photo(data, "a", 50, colour=False).image.shape == (40, 40)
