"""Drift: whether new vectors differ from those that a bank was learnt from, and what that costs.

Codes and margins of the new vectors are compared with those of vectors from the time of learning that the bank was not
learnt from (`projbank.models.reference`): those that it was learnt from, and those that a learner holds back to judge,
would look unlike any others. If both come from the same source, any split of them into old and new is as likely as
the one that came, so the share of random splits that differ as much is a p-value: an alarm below 1 % is false in 1 % of
all cases, whatever the data are. Two differences count, of which the more telling decides:

- the energy distance (Szekely and Rizzo, 2004) between both sets of codes, by the root of the Hamming distance;
- the difference between the mean ranks of their certainty, the mean logarithm of a vector's absolute margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.bits import unpack
from projbank.models.reference import FEWEST, GROUP, NEAREST, Reference, keys
from projbank.rows.source import RowSource, as_rows
from projbank.upkeep.truth import Estimate

LEVEL = 0.01
"""Share of false alarms."""
HARMFUL = 0.02
"""Loss of recall from which drift is harmful, if it is no chance."""
_SPLITS = 1999
_NORMAL = 1.959963984540054


@dataclass(frozen=True)
class Drift:
    """Whether new vectors differ from those of the time of learning."""

    n_reference: int
    n_new: int
    p_value: float
    """Share of random splits of all vectors that differ as much: below `level` in so many cases without drift."""
    level: float
    distance: float
    """Energy distance between the codes, per bit, from 0 (alike) to 1."""
    certainty: float
    """Change of the certainty of bits: the share of pairs in which the new vector is the less certain, less 1/2."""
    cost: Estimate | None
    """Recall lost on new vectors, with its interval; None where there are too few."""

    @property
    def alarm(self) -> bool:
        """Whether the new vectors differ."""
        return self.p_value <= self.level

    @property
    def verdict(self) -> str:
        """none, small (no harm is shown) or harmful."""
        if not self.alarm:
            return "none"
        return "harmful" if self.cost is not None and self.cost.low > 0 and self.cost.value >= HARMFUL else "small"

    @property
    def words(self) -> str:
        """What to do about it."""
        if self.verdict == "none":
            return "new vectors are like those that the bank was learnt from: keep it"
        if self.verdict == "harmful":
            return "new vectors differ and codes lose by it: renew the bank (projbank fit --from) and code anew"
        if self.cost is None:
            return f"new vectors differ; {GROUP} or more of them, and a reference as large, would show what that costs"
        return "new vectors differ, but codes find their neighbours as before: keep the bank and look again"

    def as_dict(self) -> dict[str, Any]:
        """All figures as JSON values."""
        facts = {name: getattr(self, name) for name in ("n_reference", "n_new", "p_value", "level", "distance")}
        cost = None if self.cost is None else self.cost._asdict()
        return facts | {"certainty": self.certainty, "cost": cost, "alarm": self.alarm, "verdict": self.verdict}

    def lines(self) -> list[str]:
        """Lines of a table."""
        cost = "unknown" if self.cost is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*self.cost)
        rows = (
            (f"drift of {self.n_new:,} new vectors, against {self.n_reference:,}", self.verdict),
            ("chance of such a difference without drift", f"{self.p_value:.4f} (alarm: {self.level:g})"),
            ("energy distance of the codes, per bit", f"{self.distance:.4f}"),
            ("new less certain than old, share of pairs", f"{self.certainty + 0.5:.3f} (alike: 0.5)"),
            (f"recall@{NEAREST} among {GROUP} vectors, lost", cost),
        )
        return [f"{name:<46}{value:>34}" for name, value in rows]


def check_drift(bank: Any, new: RowSource, reference: Any = None, *, level: float = LEVEL, seed: int = 0) -> Drift:
    """Compare new vectors with those of the time of learning.

    Parameters
    ----------
    bank : fitted bank, or compared method of binary codes
    new : new vectors, some of which are looked at where they are many
    reference : vectors that the bank was not learnt from, of the time of learning; None: what the bank kept of such
    level : share of false alarms
    seed : draws the splits
    """
    if new.shape[1] != bank.n_features_in_:
        raise ValueError(f"new must have {bank.n_features_in_} dimensions, as the bank. Got {new.shape[1]}.")
    kept: Reference | None = getattr(bank, "reference_", None)
    if reference is None:
        if kept is None or not len(kept):
            raise ValueError(
                "reference must be given: the bank was learnt from all vectors that it saw. Give others of that time, "
                "or learn with set_aside (projbank fit --set-aside 500)."
            )
        old = kept
    else:
        known = as_rows(reference)
        if known.shape[1] != bank.n_features_in_:
            raise ValueError(f"reference must have {bank.n_features_in_} dimensions. Got {known.shape[1]}.")
        n_learnt = 0 if kept is None else int(np.isin(keys(known, np.arange(known.shape[0])), kept.learnt).sum())
        if n_learnt:
            raise ValueError(
                f"reference must be vectors that the bank was not learnt from. Got at least {n_learnt} that it was."
            )
        old = Reference.of(bank, known, np.arange(known.shape[0]))
    if min(len(old), new.shape[0]) < FEWEST:
        raise ValueError(f"new and reference must be at least {FEWEST} vectors. Got {new.shape[0]} and {len(old)}.")
    return compare(old, Reference.of(bank, new, np.arange(new.shape[0])), int(bank.n_bits_), level=level, seed=seed)


def compare(old: Reference, new: Reference, n_bits: int, *, level: float = LEVEL, seed: int = 0) -> Drift:
    """Compare two sets of codes of one bank."""
    signs = np.where(unpack(np.concatenate([old.codes, new.codes]), n_bits), np.float32(1), np.float32(-1))
    distances = np.sqrt(np.maximum(np.float32(0.5) - (signs @ signs.T) / np.float32(2 * n_bits), 0))
    certainty = np.concatenate([old.certainty, new.certainty])
    ranks = (
        np.searchsorted(np.sort(certainty), certainty) + np.searchsorted(np.sort(certainty), certainty, "right")
    ) / 2
    n, n_new = len(signs), len(new)
    is_new = np.repeat((np.arange(n) >= len(old))[None].astype(np.float32), _SPLITS + 1, axis=0)
    np.random.default_rng(seed).permuted(is_new[1:], axis=1, out=is_new[1:])
    energy = _energies(distances, is_new)
    shifts = is_new @ (ranks - ranks.mean()).astype(np.float32) / n_new
    chances = np.minimum(_upper_shares(energy), _upper_shares(np.abs(shifts)))
    p_value = float(np.mean(chances <= chances[0]))
    return Drift(
        n_reference=len(old),
        n_new=n_new,
        p_value=p_value,
        level=level,
        distance=float(energy[0]),
        certainty=-float(shifts[0]) / len(old),
        cost=_difference(old.recall, new.recall),
    )


def _energies(distances: NDArray[np.float32], is_new: NDArray[np.float32]) -> NDArray[np.float64]:
    """Energy distance of each split, 2 E|x - y| - E|x - x'| - E|y - y'|; is_new (splits, n) of 0 and 1."""
    n, n_new = len(distances), float(is_new[0].sum())
    n_old = n - n_new
    products = is_new @ distances
    among_new = np.einsum("ij,ij->i", products, is_new, dtype=np.float64)
    from_new = products.sum(axis=1, dtype=np.float64)
    total = float(distances.sum(dtype=np.float64))
    between, among_old = from_new - among_new, total - 2 * from_new + among_new
    return 2 * between / (n_new * n_old) - among_new / n_new**2 - among_old / n_old**2


def _upper_shares(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Share of all values that are at least as large as each."""
    return 1 - np.searchsorted(np.sort(values), values, "left") / len(values)


def _difference(old: NDArray[np.float32], new: NDArray[np.float32]) -> Estimate | None:
    """Mean of the old values above that of the new ones, with its interval."""
    old, new = old[np.isfinite(old)], new[np.isfinite(new)]
    if not len(old) or not len(new):
        return None
    lost = float(old.mean(dtype=np.float64) - new.mean(dtype=np.float64))
    half = _NORMAL * float(np.sqrt(old.var(ddof=1) / len(old) + new.var(ddof=1) / len(new)))
    return Estimate(lost, lost - half, lost + half)
