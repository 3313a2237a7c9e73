"""The joint learner: all weights together, so that the similarities of whole codes follow those of the data.

For a mini-batch, h = tanh(f / std f + noise) relaxes the bits and S = h h' / d are the similarities of the codes. Noise
of deviation 1/2 (less for short codes) keeps the weights from learning the training vectors by heart. With the target
T of `projbank.learn.target`, minimised is

    1 - corr(S, T) + mean over bits of (mean of h)^2

over the pairs of the batch, by Adam, with hand-written gradients on the coding kernels: coding stays one pass over x.
In a batch vectors come with some of their neighbours (`NeighborBatches`).
Where groups are learnt, dimensions that have come to weigh little move to bits that want them more
(`projbank.learn.moving`). Part of the training vectors is held back; the step is shortened, and then learning ends,
when their true codes stop following their target better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from projbank.learn.descent import NOISE, batch_size, descend, hold_back
from projbank.learn.grouping import GroupLearner, say_groups
from projbank.learn.learnt_groups import FEWEST, learn_groups
from projbank.learn.moving import Mover
from projbank.learn.random import Floats, LearntBank, groups_for_sparse, random_signs
from projbank.learn.run import Run, chosen, neighbor_count
from projbank.learn.target import SimilarityTarget
from projbank.models.bank import Bank
from projbank.progress import say
from projbank.rows.source import RowSource
from projbank.rows.views import standardised

_RATES, _RATES_ON = (0.06, 0.02), (0.15, 0.04)
"""Steps of Adam: the second when held-back vectors gain no more; and those of a bank that learns on."""
_MOST_ON, _MOVES_ON = 12, (0.4, 7)
"""A bank that learns on: iterations at most; share of the dimensions that may move, and after how many of them."""


@dataclass(frozen=True)
class JointLearner(GroupLearner):
    """Learns all weights of a bank together; parameters as those of `ProjectionBank`."""

    renews: ClassVar[bool] = True
    named_auto: ClassVar[str] = "learnt"

    n_neighbors: int | str
    max_iter: int
    noise: float | str
    standardize: bool

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> Bank:
        """Learn groups, weights and biases from rows."""
        n_samples, n_features = rows.shape
        grouping, n_assign = self.resolved(n_bits, n_features, run)
        n_neighbors = neighbor_count(self.n_neighbors, n_samples)
        rows, scale = standardised(rows, self.standardize)
        statistics, rng = rows.statistics(), np.random.default_rng([run.seed, 1])
        if self.is_auto:
            n_assign = groups_for_sparse(rows.nonzeros_per_row(), n_bits, n_features)
        target = SimilarityTarget(rows, statistics.means, n_neighbors, n_threads=run.n_threads, verbose=run.verbose)
        rates, max_iter, mover = _RATES, self.max_iter, None
        if isinstance(run.start, Bank):
            bank, mover = self._go_on(run.start, rows, scale, run)
            rates, max_iter = _RATES_ON, min(self.max_iter, _MOST_ON)
        else:
            labels, signs = self._groups(grouping, rows, target, n_bits, n_assign, run)
            starts = random_signs(labels, rng) if signs is None else signs
            bank = LearntBank(labels, starts, statistics, n_bits, run.n_threads)
            if signs is not None:
                mover = Mover(bank, *statistics, self.max_iter, run.n_threads)
        curve = descend(
            rows,
            bank,
            target,
            rates,
            max_iter,
            run.seed,
            rng,
            batch=batch_size(n_bits),
            noise=chosen(self.noise, NOISE),
            mover=mover,
            n_threads=run.n_threads,
            verbose=run.verbose,
        )
        return bank.model(scale, curve)

    def _groups(
        self,
        grouping: str | NDArray[np.int32],
        rows: RowSource,
        target: SimilarityTarget,
        n_bits: int,
        n_assign: int,
        run: Run,
    ) -> tuple[NDArray[np.int32], Floats | None]:
        """Groups of the dimensions, and the signs of their weights where groups are learnt and may change."""
        _, free = hold_back(rows.shape[0], run.seed)
        wanted = isinstance(grouping, str) and grouping == "learnt"
        if not wanted or len(free) < FEWEST:
            return self.group_rows("random" if wanted else grouping, rows, n_bits, n_assign, run), None
        say(f"learning groups from {len(free)} vectors", run.verbose)
        settings = {"n_bits": n_bits, "n_assign": n_assign, "seed": run.seed, "n_threads": run.n_threads}
        labels, signs = learn_groups(rows, free, target, **settings)
        if n_assign == 1:
            labels, signs = labels[0], signs[0]
        say_groups(labels, n_bits, run.verbose)
        return labels, signs

    def _go_on(self, start: Bank, rows: RowSource, scale: Floats, run: Run) -> tuple[LearntBank, Mover | None]:
        """Go on from a bank: its weights begin at the size that those of a new bank have.

        Many dimensions move at first, where groups are learnt and need not stay: the old ones suit the old data.
        """
        weights = np.multiply(start.weights, scale, dtype=np.float32)
        bank = LearntBank(start.labels, weights, rows.statistics(), start.n_bits, run.n_threads)
        bank.weights /= bank.unit
        bank.offsets += start.biases - bank.biases()
        bank.divide_margins(_sizes(bank))
        moves = isinstance(self.grouping, str) and self.grouping in ("auto", "learnt", "soft-learnt") and not run.keep
        share, last = _MOVES_ON
        return bank, Mover(bank, *rows.statistics(), last, run.n_threads, share=share) if moves else None


def _sizes(bank: LearntBank) -> Floats:
    """Root mean square of the weights of each bit; 1 where all are 0."""
    labels, n_bits = bank.labels.ravel(), len(bank.offsets)
    squares = np.bincount(labels, bank.weights.ravel() ** 2, minlength=n_bits)
    sizes = np.sqrt(squares / np.maximum(1, np.bincount(labels, minlength=n_bits)))
    return np.where(sizes > 0, sizes, 1).astype(np.float32)
