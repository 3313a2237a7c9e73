"""Adam (Kingma and Ba, ICLR 2015), which forgets what has moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DECAYS = (0.9, 0.999)

Floats = NDArray[np.float32]


class Adam:
    """Adam on arrays that it changes in place."""

    def __init__(self, *arrays: Floats) -> None:
        self._arrays = arrays
        self._moments = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]
        self._time = 0

    def forget(self, places: NDArray[np.int64]) -> None:
        """Forget the course of some places of the first array, which begin anew."""
        for moment in self._moments[0]:
            moment.reshape(-1)[places] = 0

    def step(self, rate: float, *slopes: Floats) -> None:
        """Step against the slopes, one for each array."""
        self._time += 1
        for array, (first, second), slope in zip(self._arrays, self._moments, slopes, strict=True):
            first += (1 - _DECAYS[0]) * (slope - first)
            second += (1 - _DECAYS[1]) * (slope * slope - second)
            scale = rate / (1 - _DECAYS[0] ** self._time)
            array -= scale * first / (np.sqrt(second / (1 - _DECAYS[1] ** self._time)) + 1e-12)
