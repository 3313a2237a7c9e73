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


def test_action_has_the_papers_own_parameters(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((400, 40), np.float32))
    np.save(tmp_path / "x.labels.npy", np.arange(400) % 5)
    settings = Settings(methods=("bpb", "kbpb-rbf", "lsh"), seeds=1, ratios=(8,), params={"kbpb-rbf": {"lam": 2.0}})
    (experiment,) = plan(read_sets([tmp_path / "x.npy"]), ["action"], tmp_path, settings)
    found = {key["method"]: key["params"] for key in experiment.plan}
    assert found == {"original": {}, "lsh": {}, "bpb": {"lam": 8.0}, "kbpb-rbf": {"lam": 2.0, "n_basis": 500}}


def test_a_set_may_name_its_number_of_seeds(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((400, 40), np.float32))
    np.save(tmp_path / "x.labels.npy", np.arange(400) % 5)
    (tmp_path / "sets.toml").write_text('[x]\nvectors = "x.npy"\nseeds = 7\n')
    for given, expected in ((None, 7), (2, 2)):
        settings = Settings(methods=("lsh",), ratios=(8,), seeds=given)
        (experiment,) = plan(read_sets([tmp_path / "sets.toml"]), ["retrieval"], tmp_path, settings)
        assert len({key["seed"] for key in experiment.plan}) == expected
