import os

import pytest

from projbank.files import atomic_path


def test_the_target_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.bin"
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file_and_no_rest(tmp_path, error):
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")

    def fail():
        with atomic_path(target) as temporary:
            temporary.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_places_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a directory"), atomic_path(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="there is no folder"), atomic_path(tmp_path / "no" / "x"):
        pass


def test_usual_permissions(tmp_path):
    with atomic_path(tmp_path / "a") as temporary:
        temporary.write_bytes(b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
