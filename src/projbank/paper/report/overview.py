"""The whole at a glance: precision on every set, and on which sets the paper's statements hold."""

from __future__ import annotations

import re

from projbank.paper.report import claims
from projbank.paper.report.content import Cell, Column, Table, Verdict, mark_best, with_spread
from projbank.paper.report.study import SetInfo, method_name

PARTLY = "partly"
METHODS = ("original", "lsh", "cbe", "itq", "bpb", "kbpb-rbf", "joint")
"""The floats, a method of each kind, and the joint bank."""


def precision_tables(sets: list[SetInfo]) -> list[Table]:
    """Precision of some methods on every set: at the shortest codes that were measured there, and at the longest."""
    measured = [one for one in sets if one.good() and one.ratios()]
    k = measured[0].main_k() if measured else 0
    measured = [one for one in measured if k in one.ks()]
    lengths = {"shortest": [max(one.ratios()) for one in measured], "longest": [min(one.ratios()) for one in measured]}
    distinct = {tuple(ratios): word for word, ratios in lengths.items() if ratios}
    return [_precision_table(measured, ratios, word, k) for ratios, word in distinct.items()]


def _precision_table(sets: list[SetInfo], ratios: tuple[int, ...], word: str, k: int) -> Table:
    beside = list(zip(sets, ratios, strict=True))
    means = {method: [one.precision(method, ratio, k) for one, ratio in beside] for method in METHODS}
    shown = [method for method in METHODS if any(means[method])]
    by_method = [[Cell(method_name(method)), *map(with_spread, means[method])] for method in shown]
    by_method = mark_best(by_method, [method != "original" for method in shown])
    rows = [
        [Cell(one.title), Cell(f"D/{ratio}", one.bits(ratio)), *(row[1 + i] for row in by_method)]
        for i, (one, ratio) in enumerate(beside)
    ]
    columns = [Column("data set", owner=""), Column("codes"), *(Column(row[0].text) for row in by_method)]
    notes = ("Bold: the best of the codes; one seed does not count beside means of several. * One seed.",)
    return Table(f"overview-{word}", f"Precision at {k}, Hamming, at the {word} codes measured", columns, rows, notes)


def verdicts_of(one: SetInfo) -> list[Verdict]:
    """Every check of a statement of the paper on a set."""
    found = claims.retrieval_verdicts(one, one.main_k()) if one.good() else []
    found = found + claims.cost_verdicts(one)
    if one.good("action"):
        found += claims.action_verdicts(one)
    if one.good("pair-error"):
        found += claims.pair_error_verdicts(one)
    if one.good("soft"):
        found += claims.soft_verdicts(one, one.main_k("soft"))
    if one.good("sensitivity"):
        found += claims.sensitivity_verdicts(one, one.main_k("sensitivity"))
    return found


def agreement(sets: list[SetInfo]) -> list[Verdict]:
    """Each statement once: on which sets it holds and on which it does not."""
    titles: dict[str, dict[str, list[str]]] = {}
    for one in sets:
        for verdict in verdicts_of(one):
            statement = re.sub(r" \(D/[^)]*\)\.$", ".", verdict.statement)  # lengths may differ from set to set
            titles.setdefault(statement, {}).setdefault(verdict.outcome, []).append(one.title)
    return [
        Verdict(
            statement,
            next(iter(outcomes)) if len(outcomes) == 1 else PARTLY,
            " ".join(f"{outcome.capitalize()}: {'; '.join(where)}." for outcome, where in sorted(outcomes.items())),
        )
        for statement, outcomes in titles.items()
    ]
