import shutil

import pytest

from projbank.album import Album
from tests.album.photos import folder_of


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """An album of 30 photos; tests that change it take a copy, `album`."""
    root = folder_of(tmp_path_factory.mktemp("album") / "photos", 30)
    Album(root, describer="sift", n_bits=256, n_jobs=1).update()
    return root


@pytest.fixture
def album(made, tmp_path):
    root = tmp_path / "photos"
    shutil.copytree(made, root)  # keeps times of change
    one = Album(root, describer="sift", n_bits=256, n_jobs=1)
    yield one
    one.close()
