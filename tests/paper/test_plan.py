"""What a protocol plans to measure."""

import numpy as np
import pytest

from projbank.paper.reproduce import Settings, plan
from projbank.paper.sets import read_sets


@pytest.mark.parametrize(
    ("train", "expected"),
    [(400, [100, 250, 400]), (1500, [100, 250, 500, 1000, 1500]), (2000, [100, 250, 500, 1000, 1500])],
)
def test_no_more_basis_samples_are_tried_than_there_are_training_vectors(tmp_path, train, expected):
    np.save(tmp_path / "x.npy", np.zeros((4000, 20), np.float32))
    np.save(tmp_path / "x.labels.npy", np.arange(4000) % 5)
    settings = Settings(train=train, methods=("kbpb-rbf",), seeds=1)
    (experiment,) = plan(read_sets([tmp_path / "x.npy"]), ["sensitivity"], tmp_path, settings)
    sizes = [key["params"]["n_basis"] for key in experiment.plan if "n_basis" in key["params"]]
    assert sizes == expected
