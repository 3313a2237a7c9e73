"""The result of a check: its figures, what they mean in plain words, as a table, as JSON and as a picture."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.extras import import_extra
from projbank.files import atomic_path
from projbank.upkeep.bits import BitFigures
from projbank.upkeep.drift import Drift
from projbank.upkeep.truth import Estimate

WORTH_SAYING = 0.01
"""A gain in recall from which advice is given."""
GOOD = 0.9
LEAST_SAVING = 10
"""Re-ranking is advised where it leaves so much of the work: vectors for each one that is compared by its floats."""
_WIDTH = 80
_SIZE = (11, 3.6)
"""Inches of the picture."""


class Pairs(NamedTuple):
    """Distances of some pairs of vectors, by floats and by codes."""

    floats: NDArray[np.float64]
    codes: NDArray[np.float32]


@dataclass(frozen=True)
class Check:
    """What codes lost. ``print(check)`` shows a table of 80 columns."""

    n_vectors: int
    n_features: int
    n_queries: int
    metric: str
    recall: dict[int, Estimate]
    """Share of the k exact nearest that are among the first k by codes."""
    asymmetric: dict[int, Estimate] | None
    """The same for real-valued queries against the stored bits; None without a bank."""
    shortlist: dict[int, float]
    """Share of the 10 exact nearest among the first 100 and 1,000: what re-ranking by the floats can reach."""
    fewer_bits: dict[int, float]
    """Recall at 10 of a quarter and of a half of the bits, by their number."""
    rank_correlation: Estimate
    """Spearman's correlation of the distances to other vectors, by floats and by codes, averaged over queries."""
    precision: dict[str, dict[int, float]] | None
    """Share of the first k with the query's label, of "codes" and "floats"; None without labels."""
    bits: BitFigures
    vector_bytes: int
    code_bytes: int
    drift: Drift | None = None
    ones: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False)
    pairs: Pairs = field(default_factory=lambda: Pairs(np.empty(0), np.empty(0, np.float32)), repr=False)

    @property
    def more_bits(self) -> dict[int, float]:
        """Recall at 10 that two and four times the bits of the same kind would give, about.

        Each doubling adds to the log-odds of the recall what the last one added, times the share of it that the last
        one added of what the one before did (at most all).
        """
        known = [*self.fewer_bits.values(), self._first.value]
        if len(known) < 3:
            return {}
        a, b, c = (_log_odds(share, self.n_queries * min(self.recall)) for share in known)
        gain = max(0.0, c - b)
        ratio = min(1.0, gain / (b - a)) if b > a else 1.0
        twice = c + gain * ratio
        found = {2: twice, 4: twice + gain * ratio**2}
        return {factor * self.bits.n_bits: float(1 / (1 + np.exp(-odds))) for factor, odds in found.items()}

    @property
    def advice(self) -> list[str]:
        """What to do, in plain words, what gains most first."""
        first, k, gains = self._first, min(self.recall), []
        if self.asymmetric is not None:
            gain = self.asymmetric[k].value - first.value
            gains.append((gain, f"use asymmetric search (query_values): {gain:+.2f}, for the same stored codes"))
        for m, share in self.shortlist.items():
            if m * LEAST_SAVING > self.n_vectors:
                break
            gain = share - first.value
            gains.append((gain, f"re-rank the first {m:,} by the floats: recall {share:.2f}"))
            if share >= GOOD:
                break
        for n_bits, share in list(self.more_bits.items())[:1]:
            gains.append((share - first.value, f"{n_bits:,} bits of the same kind would give about {share:.2f}"))
        words = [text for gain, text in sorted(gains, reverse=True) if gain > WORTH_SAYING and first.value < GOOD]
        for n_bits, share in self.fewer_bits.items():
            if first.value - share < WORTH_SAYING:
                words.append(f"{n_bits:,} of the bits already give {share:.2f}: a shorter code would do")
                break
        wasted = self.bits.dead + self.bits.duplicate
        if wasted * 20 > self.bits.n_bits:
            words.append(f"{wasted:,} bits say nothing or repeat another: learn the bank from vectors like these")
        if self.bits.shared * 20 > self.bits.n_codes:
            words.append(f"{self.bits.shared:,} vectors share their code with another: use more bits, or re-rank")
        if self.drift is not None:
            words.insert(0 if self.drift.verdict == "harmful" else len(words), self.drift.words)
        return words or ["nothing: the codes keep what the floats know"]

    def as_dict(self) -> dict[str, Any]:
        """All figures as JSON values, without the drawn pairs."""
        facts = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("pairs", "ones", "drift")
        }
        facts |= {"more_bits": self.more_bits, "bytes_saved": self.bytes_saved, "advice": self.advice}
        facts["drift"] = None if self.drift is None else self.drift.as_dict()
        return {name: _plain(value) for name, value in facts.items()}

    @property
    def bytes_saved(self) -> float:
        """Share of the vectors' bytes that the codes do without."""
        return 1 - self.code_bytes / self.vector_bytes

    def __str__(self) -> str:
        bits, lines = (
            self.bits,
            [_head(f"{self.n_vectors:,} vectors of {self.n_features:,} numbers, {self.bits.n_bits:,} bits")],
        )
        floats = f"floats' {'nearest' if self.metric == 'l2' else 'nearest by cosine'}"
        for k, one in self.recall.items():
            lines.append(_line(f"recall@{k} of the {floats}", _interval(one)))
        for k, one in (self.asymmetric or {}).items():
            lines.append(_line(f"recall@{k}, asymmetric search", _interval(one)))
        for m, share in self.shortlist.items():
            lines.append(_line(f"{min(self.recall)} nearest among the first {m:,}", f"{share:.3f}"))
        for name, shares in (self.precision or {}).items():
            text = ", ".join(f"{share:.3f} @{k}" for k, share in shares.items())
            lines.append(_line(f"precision of the {name}", text))
        lines.append(_line("rank correlation of distances", _interval(self.rank_correlation)))
        for n_bits, share in {**self.fewer_bits, **self.more_bits}.items():
            about = "measured" if n_bits < bits.n_bits else "estimated"
            lines.append(_line(f"recall@{min(self.recall)} with {n_bits:,} bits, {about}", f"{share:.3f}"))
        lines += [
            _line(
                "bits that are dead, duplicate, unbalanced", f"{bits.dead:,}, {bits.duplicate:,}, {bits.unbalanced:,}"
            ),
            _line("effective bits (independent fair coins)", f"{bits.effective:,.0f} of {bits.n_bits:,}"),
            _line("vectors that share their code", f"{bits.shared:,} of {bits.n_codes:,}"),
            _line(
                "bytes of a vector, of its code",
                f"{self.vector_bytes:,}, {self.code_bytes:,} ({self.bytes_saved:.2%} saved)",
            ),
        ]
        if self.drift is not None:
            lines += ["", *self.drift.lines()]
        lines += ["", _head("What to do"), *(f"- {text}" for text in self.advice)]
        return "\n".join(_wrapped(line) if line.startswith("- ") else line for line in lines)

    def save_picture(self, path: str | os.PathLike[str]) -> None:
        """Draw recall by bits, distances by floats and codes, and the balance of the bits (PNG, SVG or PDF)."""
        kind = Path(path).suffix.lstrip(".").lower()
        if kind not in ("png", "svg", "pdf"):
            raise ValueError(f"path of the picture must end in .png, .svg or .pdf. Got {os.fspath(path)!r}.")
        figure = import_extra("matplotlib.figure", "report", "a picture").Figure(figsize=_SIZE, layout="constrained")
        by_bits, by_distance, by_share = figure.subplots(1, 3)
        k = min(self.recall)
        measured = {**self.fewer_bits, self.bits.n_bits: self.recall[k].value}
        by_bits.plot(list(measured), list(measured.values()), "o-", color="C0", label="measured")
        if self.more_bits:
            ahead = {self.bits.n_bits: self.recall[k].value, **self.more_bits}
            by_bits.plot(list(ahead), list(ahead.values()), "o--", color="C0", mfc="none", label="estimated")
        if self.asymmetric is not None:
            by_bits.plot(self.bits.n_bits, self.asymmetric[k].value, "s", color="C1", label="asymmetric search")
        by_bits.set(xscale="log", ylim=(0, 1), xlabel="bits", ylabel=f"recall@{k} of the floats' nearest")
        by_bits.set_xticks(list({**measured, **self.more_bits}), [f"{n:,}" for n in {**measured, **self.more_bits}])
        by_bits.minorticks_off()
        by_bits.legend(loc="lower right")
        by_distance.hexbin(self.pairs.floats, self.pairs.codes, gridsize=40, mincnt=1, bins="log", cmap="Blues")
        correlation = self.rank_correlation.value
        by_distance.set(
            xlabel="distance of the floats", ylabel="bits that differ", title=f"rank correlation {correlation:.2f}"
        )
        by_share.hist(self.ones, bins=np.linspace(0, 1, 41), color="C0")
        by_share.set(xlabel="share of codes in which a bit is 1", ylabel="bits", title=f"{self.bits.dead:,} dead bits")
        with atomic_path(path, kind="picture" if kind == "png" else None) as temporary:
            figure.savefig(temporary, format=kind, dpi=150)

    @property
    def _first(self) -> Estimate:
        return self.recall[min(self.recall)]


def _line(name: str, value: str) -> str:
    return f"{name:<46}{value:>34}"


def _head(text: str) -> str:
    return f"{text}\n{'-' * _WIDTH}"


def _interval(one: Estimate) -> str:
    return f"{one.value:.3f}" if one.low == one.high else f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent="  ")


def _log_odds(share: float, n: int) -> float:
    """Log-odds of a share of n trials, kept off 0 and 1 by half a trial."""
    share = min(max(share, 0.5 / n), 1 - 0.5 / n)
    return float(np.log(share / (1 - share)))


def _plain(value: Any) -> Any:
    """Numbers, texts, lists and dicts of what may be tuples, dataclasses and keys that are numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Estimate):
        return value._asdict()
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value
