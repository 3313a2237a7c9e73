"""What is told while a plan of experiments is measured."""

import pytest

from projbank.evaluate.runner import EFFORT, Experiment, Forecast
from projbank.methods import METHODS

COST = {"lsh": 1, "cbe": 2, "joint": 10, "bpb": 20}
"""Seconds that a cell of each method takes here."""


class Nothing(Experiment):
    name = "nothing"

    def measure(self, key):
        raise NotImplementedError

    def close(self):
        pass


@pytest.fixture
def cells():
    """Five splits, two lengths; the cells of a split follow each other."""
    experiment = Nothing([], None)
    return [
        (experiment, {"dataset": {"name": "x"}, "method": method, "params": {}, "n_bits": n_bits, "seed": seed})
        for seed in range(5)
        for n_bits in (64, 512)
        for method in COST
    ]


def test_forecasts_are_within_a_factor_of_two_after_a_tenth(cells):
    seconds = [COST[key["method"]] * key["n_bits"] / 64 for _, key in cells]
    forecast, n_checked = Forecast(cells), 0
    for done, (cell, spent) in enumerate(zip(cells, seconds, strict=True), 1):
        forecast.measured(cell, spent)
        guess, truth = forecast.seconds_left(), sum(seconds[done:])
        if sum(seconds[:done]) >= sum(seconds) / 10:
            n_checked += 1
            assert truth / 2 <= guess <= 2 * truth
        if cell[1]["seed"]:  # another split has told what each takes
            assert guess == pytest.approx(truth)
    assert n_checked > 30


def test_efforts_are_those_of_methods():
    assert set(EFFORT) <= {"original", *METHODS}
