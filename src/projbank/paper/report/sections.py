"""What stands where in the report, from what a folder of results holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from projbank.paper.report import plots, tables
from projbank.paper.report.content import Cell, Column, Figure, Section, Table, mark_best, number, with_spread
from projbank.paper.report.statements import statements_table
from projbank.paper.report.study import SetInfo, method_name, read_study

Parts = list[str | Table | Figure | None]

SUMMARY_METHODS = ("original", "lsh", "cbe", "itq", "bpb", "kbpb-rbf", "joint")
"""The floats, a method of each kind, and the joint bank."""
INTRODUCTION = (
    "The tables and figures of Liu, Yu and Shao, Projection Bank (ICCV 2015), measured again on other data with "
    "projbank. The paper's own data (Flickr 1M, ILSVRC2010, UCF101 videos) are not here, so its figures stand beside "
    "ours for comparison of order and ratio, not of level. Lengths are given as D / bits."
)


def build(folder: Path) -> list[Section]:
    """All sections that the results of a folder allow, the summary first."""
    sets = read_study(folder)
    kinds: dict[str, tuple[str, Callable[[SetInfo], Parts]]] = {
        "cost": (
            "Cost: storage, training, coding",
            lambda one: [tables.cost_table(one, what) for what in tables.COSTS],
        ),
        "action": ("Recognition: a linear SVM on codes", lambda one: [tables.action_table(one)]),
        "pair-error": ("Pairwise error of the bits", _pair_error),
        "soft": ("Soft against hard groups", _soft),
        "pr-curves": ("Precision against recall", _curves),
        "sensitivity": ("Lambda and the number of basis samples", _sensitivity),
    }
    found = [_section("retrieval-" + s.name, f"Retrieval: {s.title}", _retrieval(s)) for s in sets if s.records.get("")]
    for protocol, (title, parts) in kinds.items():
        found.append(
            _section(protocol, title, [part for one in sets if one.records.get(protocol) for part in parts(one)])
        )
    return [_summary(sets), *(section for section in found if section.parts), _machines(sets)]


def _section(name: str, title: str, parts: Parts) -> Section:
    return Section(name, title, [part for part in parts if part is not None])


def _summary(sets: list[SetInfo]) -> Section:
    shown = [method for method in SUMMARY_METHODS if any(method in one.methods() for one in sets)]
    places = [(one, min(one.ratios(), default=None), ("precision", str(one.main_k()))) for one in sets]
    means = [[Cell(""), *(with_spread(one.mean(m, ratio, words)) for one, ratio, words in places)] for m in shown]
    marked = mark_best(means, [method != "original" for method in shown])
    rows = []
    for i, (one, ratio, _) in enumerate(places):
        sizes = [number(count, "{:,}".format) for count in (one.n_vectors, one.dimensions, one.classes or None)]
        codes = Cell(f"D/{ratio}" if ratio else "-", ratio)
        rows.append([Cell(one.title), *sizes, codes, *(row[1 + i] for row in marked)])
    columns = [Column(name) for name in ("data set", "vectors", "dimensions", "classes", "codes")]
    columns += [Column(method_name(method)) for method in shown]
    notes = ("Bold: the best of the codes; one seed does not count beside means of several. * One seed.",)
    table = Table("sets", "Data sets, and precision at the longest codes", columns, rows, notes)
    return Section("summary", "What was run, and what came out", [INTRODUCTION, table, statements_table(sets)])


def _retrieval(one: SetInfo) -> Parts:
    k = one.main_k()
    parts: Parts = [tables.retrieval_table(one, k)]
    if one.ks():
        parts += [plots.precision_figure(one, k), plots.resources_figure(one)]
        parts += [tables.retrieval_table(one, other) for other in one.ks() if other != k]
        if any("asymmetric" in record for record in one.good()):
            parts.append(tables.retrieval_table(one, k, "asymmetric"))
    return parts


def _pair_error(one: SetInfo) -> Parts:
    shares = [record["positive_share"] for record in one.good("pair-error")]
    if not shares:
        return _failures(one, "pair-error")
    text = (
        f"{_setting(one, 'pair-error')} {100 * shares[0]:.1f} % of all pairs count as similar. A bit that splits the "
        "data into halves puts half of all pairs on one side, so it is wrong on at least about "
        f"{100 * (0.5 - shares[0]):.0f} % of pairs, however good it is."
    )
    return [plots.pair_error_figure(one), text, *_failures(one, "pair-error")]


def _soft(one: SetInfo) -> Parts:
    return [_setting(one, "soft"), plots.soft_figure(one, one.main_k("soft")), *_failures(one, "soft")]


def _curves(one: SetInfo) -> Parts:
    return [_setting(one, "pr-curves"), plots.curves_figure(one), tables.area_table(one)]


def _sensitivity(one: SetInfo) -> Parts:
    k = one.main_k("sensitivity")
    labels = {"lam": "lambda", "n_basis": "number n of basis samples"}
    figures = [plots.varied_figure(one, k, word, label) for word, label in labels.items()]
    return [_setting(one, "sensitivity"), *figures, *_failures(one, "sensitivity")]


def _failures(one: SetInfo, protocol: str) -> Parts:
    return [f"{one.title}: {line}" for line in tables.failures(one, protocol)]


def _setting(one: SetInfo, protocol: str) -> str:
    """How much data a protocol was run on."""
    seeds = len({record["seed"] for record in one.good(protocol)})
    training = one.records[protocol][0]["protocol"]["training"]
    return f"{one.title}: {training:,} training vectors, {'one seed' if seeds == 1 else f'up to {seeds} seeds'}."


def _machines(sets: list[SetInfo]) -> Section:
    records = [record for one in sets for found in one.records.values() for record in found]
    machines = Counter(
        "{cpu}, {cores} cores, Python {python}, {system}".format(**record["machine"]) for record in records
    )
    lines = [f"{count} cells on {name}." for name, count in machines.most_common()]
    dates = sorted(record["date"] for record in records)
    return Section("machines", "Machines and dates", [*lines, f"Measured from {dates[0]} to {dates[-1]}."])
