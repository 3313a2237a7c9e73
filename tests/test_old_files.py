"""Files that projbank 0.1.0 wrote, one of each kind: they load, and give what they gave then."""

from pathlib import Path

import numpy as np
import pytest

from projbank import HammingIndex, load

OLD = Path(__file__).parent / "data" / "0.1.0"
EXPECTED = np.load(OLD / "expected.npz")
INPUTS = np.load(OLD / "inputs.npz")


@pytest.mark.parametrize("path", sorted(OLD.glob("*.safetensors")), ids=lambda path: path.stem)
def test_models_give_what_they_gave(path):
    inputs = {"vlad": "bags", "fisher": "bags", "extractor": "images"}.get(path.stem, "Q")
    found, wanted = load(path).transform(INPUTS[inputs]), EXPECTED[path.stem]
    if wanted.dtype == np.uint8:
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_an_index_finds_what_it_found():
    index = HammingIndex.load(OLD / "index.pbi")
    distances, ids = index.search(index.codes[:2], 4)
    np.testing.assert_array_equal([distances, ids], EXPECTED["index"])
