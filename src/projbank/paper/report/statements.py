"""What the paper says, beside the paper's figures and ours: one row each statement, one column each data set."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from projbank.paper.report import paper
from projbank.paper.report.content import Cell, Column, Table, decimal, three_digits
from projbank.paper.report.study import SetInfo, method_name


class Measure(NamedTuple):
    """Figures of a protocol: the word that records have, and a factor for the unit that is shown."""

    protocol: str = ""
    word: str = "precision"
    scale: float = 1.0


class Statement(NamedTuple):
    """A statement, and the order of figures that it claims: each before a ">" is at least (1 - slack) of each after it.

    A method may be at some length: "@16" is D/16, "@shortest" the shortest codes measured; the longest if not given.
    """

    text: str
    order: str
    measure: Measure = Measure()
    slack: float = 0.01


CODING, TRAINING = Measure("cost", "coding_seconds", 1e3), Measure("cost", "training_seconds")
SVM, PAIRS = Measure("action", "accuracy"), Measure("pair-error", "pair_error")
SOFT, VARIED = Measure("soft"), Measure("sensitivity")
LAM = "{0} lam=1.0 > {0} lam=0.001, {0} lam=0.01, {0} lam=0.1, {0} lam=10.0, {0} lam=100.0"
N = "kbpb-rbf n_basis=1000 > kbpb-rbf n_basis=1500"
STATEMENTS = (
    Statement("BPB keeps the precision of the uncompressed vectors.", "bpb > original"),
    Statement("BPB is level with CBE and above all other binary methods.", "bpb > cbe, bpbc, lsh, sph, sign, alpha0"),
    Statement("ITQ in each k-means group, and BPB on random groups, are below BPB.", "bpb > kmeans+itq, randst+bpb"),
    Statement("Kernels help: the RBF kernel is best, the polynomial one next.", "kbpb-rbf > kbpb-poly > bpb"),
    Statement("At the longest codes, KBPB with the RBF kernel is above the floats.", "kbpb-rbf > original", slack=0),
    Statement("CBE is the strongest of the earlier binary methods.", "cbe > bpbc, lsh, sph, sign, alpha0"),
    Statement("Signs of the vector itself are the worst bits.", "cbe, bpbc, lsh, sph, alpha0 > sign"),
    Statement("A random rotation before product quantisation helps.", "rr+pq > pq", slack=0),
    Statement("From D/8 to D/16 bits BPB loses little.", "bpb@16 > bpb@8", slack=0.05),
    Statement("BPB codes faster than all others (ms).", "rr, rr+pq, bpbc, cbe, kbpb-rbf > bpb", CODING),
    Statement("BPB's coding time does not depend on the length (ms).", "bpb@shortest > bpb", CODING, 0.33),
    Statement("BPB trains longer than CBE, but not as long as BPBC (s).", "bpbc > bpb > cbe", TRAINING),
    Statement("A linear SVM on BPB codes is within half a point of the floats.", "bpb > original", SVM),
    Statement("KBPB with the RBF kernel has the best accuracy.", "kbpb-rbf > kbpb-poly, bpb, cbe, pka, lsh", SVM),
    Statement("Bits of small groups make fewer pairwise errors.", "original > bpb@8", PAIRS, 0),
    Statement("At D/8, soft groups are level with hard ones.", "bpb grouping=soft@8 > bpb@8", SOFT),
    Statement("Towards D bits, soft groups hold and hard ones fail.", "bpb grouping=soft > bpb", SOFT, 0),
    Statement("Lambda is best around 1 (BPB).", LAM.format("bpb"), VARIED),
    Statement("Lambda is best around 1 (KBPB, RBF).", LAM.format("kbpb-rbf"), VARIED),
    Statement("From 1,000 basis samples on, precision is stable.", N, VARIED, 0.03),
)


def statements_table(sets: list[SetInfo]) -> Table:
    """All statements with the paper's figures (Flickr 1M and UCF101, Fisher vectors) and those of each set."""
    rows = []
    for said in STATEMENTS:
        order = " > ".join(", ".join(map(_name, level)) for level in _levels(said))
        rule, theirs = Cell(f"{order} ({100 * said.slack:g} %)"), Cell(_list(said, _paper(said)) or "in a plot only")
        rows.append([Cell(said.text), rule, theirs, *(Cell(check(said, one)) for one in sets)])
    columns = [Column("the paper says"), Column("that is"), Column("figures", "Fisher vectors", paper=True)]
    notes = [
        "Precision at 50, or what is named, of the longest codes measured where no length is given.",
        "agrees: each figure before a > is at least as large as each after it, less the per cent in brackets. "
        "open: something was not measured. Toy sets have figures only.",
    ]
    columns += [Column(one.title) for one in sets]
    return Table("statements", "The paper's statements", columns, rows, notes, prose=True)


def check(said: Statement, one: SetInfo) -> str:
    """A set's figures for a statement, over the seeds that all of them have, and whether they agree."""
    protocol, word, scale = said.measure
    words = (word, str(one.main_k(protocol))) if word == "precision" else (word,)
    places = {name: _place(name, one.ratios(protocol)) for level in _levels(said) for name in level}
    seeds = [known for place in places.values() if (known := one.seeds(*place, protocol))]
    common = set.intersection(*seeds) if seeds else None
    means = {name: one.mean(*place, words, protocol, common) for name, place in places.items()}
    found = {name: scale * mean.value for name, mean in means.items() if mean is not None}
    listed = _list(said, found) or "not measured"
    if one.toy or not found:
        return listed
    levels = [[found[name] for name in level if name in found] for level in _levels(said)]
    if not all(levels):
        return f"open: {listed}"
    holds = all(min(upper) >= (1 - said.slack) * max(lower) for upper, lower in itertools.pairwise(levels))
    return f"{'agrees' if holds else 'differs'}: {listed}"


def _paper(said: Statement) -> dict[str, float]:
    """The paper's figures, as far as it prints them."""
    protocol, word, _ = said.measure
    ratios = {"": paper.RATIOS, "cost": paper.COST_RATIOS, "action": paper.ACTION_RATIOS}.get(protocol, (1,))
    found = {name: paper.figure(protocol, word, *_place(name, ratios)) for level in _levels(said) for name in level}
    return {name: value for name, value in found.items() if value is not None}


def _levels(said: Statement) -> list[list[str]]:
    return [level.split(", ") for level in said.order.split(" > ")]


def _place(name: str, ratios: Sequence[int]) -> tuple[str, int]:
    """Method and D / bits."""
    method, _, length = name.partition("@")
    return method, int(length) if length.isdigit() else (max if length else min)(ratios, default=1)


def _name(name: str) -> str:
    method, _, length = name.partition("@")
    return method_name(method) + (f" ({'D/' * length.isdigit()}{length})" if length else "")


def _list(said: Statement, figures: dict[str, float]) -> str:
    write = three_digits if said.measure.protocol in ("cost", "action") else decimal
    return ", ".join(f"{_name(name)} {write(value)}" for name, value in figures.items())
