"""The picture of a check."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from projbank.extras import import_extra
from projbank.files import atomic_path
from projbank.upkeep.result import Check

_SIZE = (11, 3.6)


def save_picture(found: Check, path: str | os.PathLike[str]) -> None:
    """Draw recall by the number of bits, distances by floats and by codes, and how often each bit is 1."""
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"path of the picture must end in .png, .svg or .pdf. Got {os.fspath(path)!r}.")
    figure = import_extra("matplotlib.figure", "report", "a picture").Figure(figsize=_SIZE, layout="constrained")
    by_bits, by_distance, by_share = figure.subplots(1, 3)
    k = min(found.recall)
    measured = {**found.fewer_bits, found.bits.n_bits: found.recall[k].value}
    by_bits.plot(list(measured), list(measured.values()), "o-", color="C0", label="measured")
    if found.more_bits:
        ahead = {found.bits.n_bits: found.recall[k].value, **found.more_bits}
        by_bits.plot(list(ahead), list(ahead.values()), "o--", color="C0", mfc="none", label="estimated")
    if found.asymmetric is not None:
        by_bits.plot(found.bits.n_bits, found.asymmetric[k].value, "s", color="C1", label="asymmetric search")
    by_bits.set(xscale="log", ylim=(0, 1), xlabel="bits", ylabel=f"recall@{k} of the floats' nearest")
    by_bits.set_xticks(list({**measured, **found.more_bits}), [f"{n:,}" for n in {**measured, **found.more_bits}])
    by_bits.minorticks_off()
    by_bits.legend(loc="lower right")
    by_distance.hexbin(found.pairs.floats, found.pairs.codes, gridsize=40, mincnt=1, bins="log", cmap="Blues")
    correlation = found.rank_correlation.value
    by_distance.set(
        xlabel="distance of the floats", ylabel="bits that differ", title=f"rank correlation {correlation:.2f}"
    )
    by_share.hist(found.ones, bins=np.linspace(0, 1, 41), color="C0")
    by_share.set(xlabel="share of codes in which a bit is 1", ylabel="bits", title=f"{found.bits.dead:,} dead bits")
    with atomic_path(path, kind="picture" if kind == "png" else None) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)
