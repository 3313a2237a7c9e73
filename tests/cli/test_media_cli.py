"""`projbank fit` and `projbank encode` on a folder of pictures."""

import numpy as np
import pytest

from projbank import load
from tests.features.media_files import picture, picture_folder, write_video


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return picture_folder(tmp_path_factory.mktemp("photos"))


def test_two_commands_from_pictures_to_codes(projbank, folder, tmp_path):
    bank, codes = tmp_path / "bank.safetensors", tmp_path / "codes.npy"
    fit = ("fit", folder, "--bits", 32, "--solver", "random", "--components", 2, "--kind", "vlad", "-j", 1, "-k", 5)
    code, out, err = projbank(*fit, "-o", bank)
    assert (code, err) == (0, "")
    assert "128 dimensions to 32 bits" in out
    code, out, err = projbank("encode", bank, folder, "-o", codes, "-j", 1)
    assert (code, err) == (0, "")
    assert "12 codes of images, 4 bytes each" in out
    coder = load(bank)
    np.testing.assert_array_equal(np.load(codes)[0], coder.transform([picture(0)])[0])
    (tmp_path / "diary.npy").write_text("my diary")
    code, _, err = projbank("encode", bank, folder, "-o", tmp_path / "diary.npy", "-j", 1)
    assert code == 2
    assert "another kind" in err
    assert projbank("encode", bank, folder, "-o", tmp_path / "diary.npy", "-j", 1, "--force")[0] == 0
    code, out, _ = projbank("info", bank)
    assert code == 0
    assert "MediaCoder" in out
    vectors = np.random.default_rng(0).normal(size=(3, 128)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    assert projbank("encode", bank, tmp_path / "vectors.npy", "-o", tmp_path / "v.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), coder.bank.transform(vectors))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--descriptor", "trajectories"), "does not describe"),
        (("--sample", 1), "'sample' parameter"),
        (("--components", 10**6), "codebook"),
    ],
)
def test_bad_options_are_one_line(projbank, folder, tmp_path, words, message):
    code, _, err = projbank("fit", folder, *words, "-j", 1, "-o", tmp_path / "bank.safetensors")
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_is_refused(projbank, folder, tmp_path):
    vectors, bank = tmp_path / "vectors.npy", tmp_path / "bank.safetensors"
    np.save(vectors, np.random.default_rng(0).normal(size=(20, 64)).astype(np.float32))
    code, _, err = projbank("fit", vectors, "--kind", "fv", "-o", bank)
    assert (code, "--kind is for local descriptors" in err) == (2, True)
    assert projbank("fit", vectors, "--bits", 8, "--solver", "random", "-k", 5, "-o", bank)[0] == 0
    code, _, err = projbank("encode", bank, folder, "-o", tmp_path / "codes.npy")
    assert code == 2
    assert "codes vectors" in err
    mixed = picture_folder(tmp_path / "mixed", 1, 1)
    write_video(mixed / "v.avi", 0, 3)
    code, _, err = projbank("fit", mixed, "-o", bank)
    assert code == 2
    assert "holds 1 images and 1 videos" in err
