"""`projbank demo` on a few digits, and the picture that it draws."""

from __future__ import annotations

import re
import sys

import cv2
import numpy as np
import pytest

from projbank.cli import demo, main


def test_demo_searches_images_and_draws_what_it_found(monkeypatch, capsys, tmp_path):
    images, labels = demo.digit_images()
    few = np.flatnonzero(labels < 3)[:440]  # classes larger than the 100 neighbours that a bank learns from
    monkeypatch.setattr(demo, "digit_images", lambda: (images[few], labels[few]))
    monkeypatch.setattr(demo, "N_QUERIES", 40)
    monkeypatch.setattr(sys, "argv", ["projbank", "demo", "--bits", "64", "--picture", str(tmp_path / "found.png")])
    monkeypatch.setenv("COLUMNS", "80")
    main_code = 0
    try:
        main()
    except SystemExit as stop:
        main_code = stop.code or 0
    out = capsys.readouterr().out
    assert main_code == 0
    dimensions = re.search(r"make ([\d,]+) numbers", out)
    assert dimensions is not None
    assert int(dimensions.group(1).replace(",", "")) >= 10_000
    assert len(out.splitlines()) < 60
    assert max(map(len, out.splitlines())) <= 80 + len(str(tmp_path))
    scores = [float(score) for score in re.findall(r"(?:numbers|paper|default) +│ [\d,]+ +│ (\d\.\d+)", out)]
    assert len(scores) == 3
    assert min(scores) > 0.8  # a third of the gallery would be right by chance
    sheet = cv2.imread(str(tmp_path / "found.png"))
    assert sheet.shape[0] == demo.SIDE // 2 + 3 * (demo.SIDE + 8)


@pytest.mark.parametrize("wrong", [0, 1])
def test_the_sheet_frames_results_by_their_labels(wrong):
    images = np.zeros((20, demo.SIDE, demo.SIDE), np.uint8)
    labels = np.repeat([5, 7], 10)
    queries = np.array([0, 10])
    right = np.stack([np.arange(1, 9), np.arange(11, 19)])
    mixed = right.copy()
    mixed[wrong, 3] = 19 - 10 * wrong
    sheet = demo.neighbour_sheet(images, labels, queries, right, mixed)
    top, cell, gap = demo.SIDE // 2, demo.SIDE + 8, demo.SIDE // 2
    for line in range(2):
        y = top + line * cell + 2
        for group, results in enumerate((right, mixed)):
            for column, found in enumerate(results[line]):
                x = cell + gap + group * (8 * cell + gap) + column * cell + 2
                expected = demo.RIGHT if labels[found] == labels[queries[line]] else demo.WRONG
                assert tuple(int(value) for value in sheet[y, x]) == expected


def test_the_picture_needs_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        demo.write_picture(tmp_path / "nowhere" / "x.png", np.zeros((4, 4, 3), np.uint8))


def test_ctrl_c_is_one_line_and_leaves_no_picture(monkeypatch, projbank, tmp_path):
    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "digit_images", stop)
    assert projbank("demo", "--picture", tmp_path / "found.png") == (130, "", "interrupted\n")
    assert not list(tmp_path.iterdir())
