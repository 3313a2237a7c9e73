"""Renewal: to learn on from a model that exists, and to hold the change small where codes have to stay comparable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from projbank.learn.neighbors import centered_rows
from projbank.learn.run import Run
from projbank.models.model import Model
from projbank.progress import say
from projbank.rows.source import ArrayRows, RowSource

SHARES = (1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125, 0.0625)
"""Parts of the way from the old weights to the new ones that are tried, the farthest first."""
LEAST_LOSS = 0.01
"""How far recall across versions may be below that of the old codes among themselves."""
NEAREST = 10
_SAMPLE = 512

Floats = NDArray[np.float32]
M = TypeVar("M", bound=Model)


class Kept(NamedTuple):
    """How codes of two versions of a bank go together, on a sample of rows."""

    share: float
    """Part of the way from the old weights to the new ones."""
    flipped: float
    """Share of bits that differ between the versions."""
    recall: dict[str, float]
    """Share of the floats' ten nearest that are found: "old" and "new" among themselves, "across" versions."""


def start_model(start: Any, kind: Any, learner: Any, n_features: int, n_bits: Any) -> Any:
    """Return the model of a fitted estimator, or say why a learner can't learn on from it.

    Parameters
    ----------
    start : the estimator
    kind : class of the learner's models
    n_features, n_bits : dimensions of the new rows; bits that are asked for, or "auto"
    """
    if not learner.renews:
        raise ValueError(f"start is not for {type(learner).__name__}, which always learns anew.")
    model: Any = getattr(start, "model_", None)
    if type(model) is not kind:
        came = type(start).__name__ if model is None else f"{type(start).__name__} of {type(model).__name__}"
        raise ValueError(f"start must be a fitted bank that holds a {kind.__name__}. Got {came}.")
    if model.n_features != n_features:
        raise ValueError(f"start must be a bank of {n_features} dimensions, as X has. Got {model.n_features}.")
    if not isinstance(n_bits, str) and n_bits != model.n_bits:
        raise ValueError(f"start must be a bank of n_bits={n_bits}. Got {model.n_bits} bits.")
    return model


def blend(old: M, new: M, share: float) -> M:
    """Model whose numbers stand at a share of the way from the old ones to the new.

    Both must have the same groups: arrays of whole numbers that are equal.
    """
    if share == 1:
        return new
    between: dict[str, Any] = {}
    for name, array in new.arrays.items():
        if name == "loss_curve" or array.dtype.kind != "f":
            continue
        between[name] = (array * np.float32(share) + old.arrays[name] * np.float32(1 - share)).astype(array.dtype)
    return replace(new, **between)  # type: ignore[type-var]


def keep_comparable(rows: RowSource, old: M, new: M, run: Run) -> tuple[M, Kept]:
    """Go from the old model towards the new one only as far as codes of both can be mixed.

    Taken is the farthest of some places at which queries that are coded anew find, among codes of the old model, no
    less than the old codes find among themselves (but for `LEAST_LOSS`).
    """
    for name, array in old.arrays.items():
        other = new.arrays[name]
        if name != "loss_curve" and (
            array.shape != other.shape or (array.dtype.kind != "f" and (array != other).any())
        ):
            raise ValueError(f"keep_codes needs a learner that leaves {name!r} as they are.")
    sample = ArrayRows(rows.read(rows.sample(_SAMPLE, run.seed)))
    true = _nearest(_cosines(sample.array))
    before = _bits(old, sample, run)
    old_recall = _recall(before, before, true)
    for share in SHARES:
        model = blend(old, new, share)
        after = _bits(model, sample, run)
        across = _recall(after, before, true)
        if across >= old_recall - LEAST_LOSS:
            recall = {"old": old_recall, "across": across, "new": _recall(after, after, true)}
            kept = Kept(share, float(np.mean(before != after)), recall)
            say(f"kept codes comparable at {share:g} of the way: {kept}", run.verbose)
            return model, kept
    return old, Kept(0.0, 0.0, dict.fromkeys(("old", "across", "new"), old_recall))


def _bits(model: Model, rows: RowSource, run: Run) -> Floats:
    """Bits as -1 and 1."""
    return np.where(model.margins(rows, n_threads=run.n_threads) > 0, np.float32(1), np.float32(-1))


def _cosines(rows: Floats) -> Floats:
    directions = centered_rows(rows, rows.mean(axis=0, dtype=np.float64).astype(np.float32), True)[0]
    return directions @ directions.T


def _recall(queries: Floats, gallery: Floats, true: NDArray[np.int64]) -> float:
    found = _nearest(queries @ gallery.T)
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(true, found, strict=True)]))


def _nearest(similarities: Floats) -> NDArray[np.int64]:
    """Ids of each row's most similar, itself left out."""
    np.fill_diagonal(similarities, -np.inf)
    return np.argsort(-similarities, axis=1, kind="stable")[:, : min(NEAREST, len(similarities) - 1)]
