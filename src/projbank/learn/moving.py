"""Dimensions that move: those that have come to weigh little in their bit leave it for one that wants them more.

As in sparse training that grows connections where the gradient is largest (RigL; Evci et al., ICML 2020): a bank has
one weight per dimension, so a dimension that its bit does not need is better used elsewhere. At every check of the
learner the dimensions of the smallest weights are looked at: each goes to the bit at which, were it there with weight
0, the loss would fall most steeply, and starts there from 0.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from projbank.threads import run_each, split_rows

# Measured on VLAD of Caltech-101 and Imagenette, conv maps, UCF101 and worm neurons, at codes of D/64 to D/8 bits.
SHARE, _SHARE_BITS = (0.1, 0.15), 300
"""Share of the weights that is looked at, least and most; the least from so many bits on, where a move costs more."""
LAST, _LAST_BITS = (1 / 7, 4 / 7), 600
"""Share of the iterations after which dimensions move, least and most, and the bits at which it would be all."""
_MANY_BITS = 2048
"""Bits above which dimensions move in the fewest iterations."""
_SURVEY = (1024, 2048)
"""Vectors that judge where dimensions go, least and most."""
_SLOPES, _BITS_PER_VECTOR = 1 << 22, 4
"""So many slopes in all where bits are few, and a vector for so many bits where they are many."""
_SURVEY_BYTES = 1 << 29
"""Bytes of the vectors that judge, at most."""
COLUMNS = 512
"""Dimensions that a thread looks at together."""
_FEWEST = 4
"""A group keeps one in so many of the dimensions that it would have if all groups had as many."""

Floats = NDArray[np.float32]


class Movable(Protocol):
    """A bank whose groups may change: labels and weights are (D,) or (r, D), offsets (n_bits,)."""

    labels: NDArray[np.int32]
    weights: Floats
    offsets: Floats


class Mover:
    """Moves dimensions between the groups of a bank.

    Parameters
    ----------
    bank : what is learnt
    means, deviations : (D,) of the data
    max_iter : iterations of the learner, at most; dimensions move after the first `last`, so that weights can settle
    share : share of the dimensions that may move at a time, after every iteration; None: by the number of bits
    """

    def __init__(
        self,
        bank: Movable,
        means: NDArray[np.float64],
        deviations: NDArray[np.float64],
        max_iter: int,
        n_threads: int = 1,
        *,
        share: float | None = None,
    ) -> None:
        n_bits, least, most = len(bank.offsets), *LAST
        often = bank.labels.ndim == 1 and n_bits <= _MANY_BITS  # else moves cost more, and more of them win nothing
        self.last = round((max(least, min(most, _LAST_BITS / n_bits)) if often else least) * max_iter)
        self._share = max(SHARE[0], min(SHARE[1], _SHARE_BITS / n_bits))
        if share is not None:
            self.last, self._share = max_iter, share
        self._bank, self._n_threads = bank, n_threads
        self._center = means.astype(np.float32)
        self._deviations = deviations.astype(np.float32)

    def survey_size(self, n_free: int) -> int:
        """How many of the vectors to learn from judge where dimensions go.

        Where bits are few more cost little, and where there are many bits to choose from more are needed.
        """
        n_bits, (least, most) = len(self._bank.offsets), _SURVEY
        useful = max(least, min(most, max(_SLOPES // n_bits, n_bits // _BITS_PER_VECTOR)))
        return min(n_free, useful, max(least, _SURVEY_BYTES // (4 * len(self._center))))

    def move(self, rows: Floats, slopes: Floats) -> NDArray[np.int64]:
        """Move dimensions, judged by a batch; returns their places in `weights.ravel()`, which are now 0.

        rows (b, D) are the batch, slopes (b, n_bits) those of its loss in the margins.
        """
        places = self._least()
        dimensions = places % len(self._center)
        wanted, steepness = np.empty(len(places), np.int64), np.empty(len(places), np.float32)

        def choose(first: int, last: int) -> None:
            own = dimensions[first:last]
            pulls = (rows[:, own] - self._center[own]).T @ slopes
            best = np.abs(pulls, out=pulls).argmax(axis=1)
            wanted[first:last], steepness[first:last] = best, pulls[np.arange(len(own)), best]

        run_each(choose, split_rows(len(places), COLUMNS), self._n_threads)
        labels = self._bank.labels.copy()
        serves = (labels.reshape(-1, len(self._center))[:, dimensions] == wanted).any(axis=0)
        moves = ~serves & (steepness > 0)
        labels.reshape(-1)[places[moves]] = wanted[moves]
        self._bank.labels = labels
        self._bank.weights.reshape(-1)[places[moves]] = 0
        return places[moves]

    def _least(self) -> NDArray[np.int64]:
        """Places of the weights that matter least, |w| times the deviation, at most one of a dimension.

        No group is left with too few; dimensions that are constant stay where they are.
        """
        labels, n_bits = self._bank.labels.reshape(-1), len(self._bank.offsets)
        matters = np.where(self._deviations > 0, np.abs(self._bank.weights) * self._deviations, np.inf).reshape(-1)
        places = np.argsort(matters, kind="stable")[: int(self._share * len(matters))]
        places = places[np.isfinite(matters[places])]
        _, first = np.unique(places % len(self._center), return_index=True)
        places = places[np.sort(first)]
        own = labels[places]
        by_group = np.argsort(own, kind="stable")
        rank = np.empty(len(own), np.int64)
        rank[by_group] = np.arange(len(own)) - np.searchsorted(own[by_group], own[by_group])
        fewest = max(1, len(labels) // (_FEWEST * n_bits))
        return places[rank < (np.bincount(labels, minlength=n_bits) - fewest)[own]]
