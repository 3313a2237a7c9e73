"""Some hundred operations; ``python -m tests.soak`` makes as many as one likes."""

import numpy as np
import pytest

from tests.soak.index import Soak


@pytest.mark.parametrize("n_bits", [1, 7, 52, 129])
def test_an_index_agrees_with_a_dictionary(tmp_path, n_bits):
    soak = Soak(tmp_path / "index.pbi", n_bits, seed=0)
    for _ in range(250):
        soak.step()  # compares every answer
    np.testing.assert_array_equal(np.sort(soak.index.ids), sorted(soak.known))
