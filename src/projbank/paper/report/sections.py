"""What stands where in the report, from what a folder of results holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from projbank.paper.report import causes, plots, tables
from projbank.paper.report.content import Figure, Section, Table
from projbank.paper.report.names import names_table
from projbank.paper.report.statements import is_small, statements_table
from projbank.paper.report.study import SetInfo, read_study

Parts = list[str | Table | Figure | None]

INTRODUCTION = (
    "The tables and figures of Liu, Yu and Shao, Projection Bank (ICCV 2015), measured again on other data with "
    "projbank. The paper's own data (Flickr 1M, ILSVRC2010, UCF101 videos) are not here, so its figures stand beside "
    "ours for comparison of order and ratio, not of level. Lengths are given as D / bits."
)


def build(folder: Path) -> list[Section]:
    """All sections that the results of a folder allow, the summary first."""
    sets = read_study(folder)
    sections = [("summary", "What was run, and what came out", _summary(sets))]
    sections += [(f"retrieval-{s.name}", f"Retrieval: {s.title}", _retrieval(s)) for s in sets if s.records.get("")]
    kinds: dict[str, tuple[str, Callable[[SetInfo], Parts]]] = {
        "cost": (
            "Cost: storage, training, coding",
            lambda one: [tables.cost_table(one, what) for what in tables.COSTS],
        ),
        "action": ("Recognition: a linear SVM on codes", lambda one: [tables.action_table(one)]),
        "pair-error": ("Pairwise error of the bits", _pair_error),
        "soft": ("Soft against hard groups", lambda one: [plots.soft_figure(one, one.main_k("soft"))]),
        "pr-curves": ("Precision against recall", lambda one: [plots.curves_figure(one), tables.area_table(one)]),
        "tuned": ("Retrieval with parameters chosen on held-out vectors", _tuned),
        "causes": ("Why: one thing changed at a time", causes.tables),
        "sensitivity": ("Lambda and the number of basis samples", _sensitivity),
    }
    for protocol, (title, build_parts) in kinds.items():
        measured = [one for one in sets if one.records.get(protocol)]
        parts = [part for one in measured for part in [*build_parts(one), *_setting(one, protocol)]]
        sections.append((protocol, title, parts))
    sections.append(("names", "What the names mean", [names_table(sets)]))
    sections.append(("machines", "Machines and dates", _machines(sets)))
    filled = [Section(name, title, [part for part in parts if part is not None]) for name, title, parts in sections]
    return [section for section in filled if section.parts]


def _summary(sets: list[SetInfo]) -> Parts:
    return [INTRODUCTION, *map(_about, sets), statements_table(sets)]


def _about(one: SetInfo) -> str:
    return f"{one.title}: {one.describe()}.{' A small set: its figures get no verdict.' if is_small(one) else ''}"


def _retrieval(one: SetInfo) -> Parts:
    k = one.main_k()
    parts: Parts = [tables.retrieval_table(one, k), plots.precision_figure(one, k), plots.resources_figure(one)]
    parts += [tables.retrieval_table(one, other) for other in one.ks() if other != k]
    has_asymmetric = any("asymmetric" in record for record in one.good())
    parts += [tables.whole_table(one, word) for word in tables.WHOLE if any(word in r for r in one.good())]
    return parts + ([tables.retrieval_table(one, k, "asymmetric")] if has_asymmetric else [])


def _tuned(one: SetInfo) -> Parts:
    return [tables.tuned_table(one, one.main_k("tuned"))]


def _pair_error(one: SetInfo) -> Parts:
    share = next((record["positive_share"] for record in one.good("pair-error")), 0.0)
    text = (
        f"{100 * share:.1f} % of all pairs count as similar. A bit that splits the data into halves puts half of all "
        f"pairs on one side, so it is wrong on at least about {100 * (0.5 - share):.0f} % of pairs, however good it is."
    )
    return [plots.pair_error_figure(one), text]


def _sensitivity(one: SetInfo) -> Parts:
    k, labels = one.main_k("sensitivity"), {"lam": "lambda", "n_basis": "number n of basis samples"}
    return [plots.varied_figure(one, k, word, label) for word, label in labels.items()]


def _setting(one: SetInfo, protocol: str) -> Parts:
    """How much data a protocol was run on, and what failed, where no table says so."""
    if protocol in ("cost", "action"):
        return []
    seeds = len({record["seed"] for record in one.good(protocol)})
    training = one.records[protocol][0]["protocol"]["training"]
    failed = [] if protocol == "pr-curves" else tables.failures(one, protocol)
    text = f"{training:,} training vectors, {'one seed' if seeds == 1 else f'up to {seeds} seeds'}."
    return [f"{one.title}: {line}" for line in (text, *failed)]


def _machines(sets: list[SetInfo]) -> Parts:
    records = [record for one in sets for found in one.records.values() for record in found]
    words = "{cpu}, {cores} cores, Python {python}, {system}"
    machines = Counter(words.format(**record["machine"]) for record in records)
    dates = sorted(record["date"] for record in records)
    lines = [f"{count} cells on {name}." for name, count in machines.most_common()]
    return [*lines, f"Measured from {dates[0]} to {dates[-1]}."]
