"""The report's text: which tables, plots, verdicts and pictures stand where, from what a folder holds."""

from __future__ import annotations

from collections import Counter

from projbank.evaluate.results import Record
from projbank.paper.report import claims, overview, plots, tables
from projbank.paper.report.content import Cell, Code, Column, Figure, Gallery, Part, Picture, Section, Table
from projbank.paper.report.study import SetInfo, Study, method_name, order_of, seeds_of, without_repeats


def build(study: Study) -> list[Section]:
    """All sections that the results allow, the summary first."""
    sections = [
        *[_retrieval(one) for one in study.having("")],
        _cost(study),
        _action(study),
        _pair_error(study),
        _soft(study),
        _curves(study),
        _sensitivity(study),
        _diagnosis(study),
        _examples(study),
        _machines(study),
    ]
    filled = [section for section in sections if section is not None and section.parts]
    return [_summary(study), *filled]


def _summary(study: Study) -> Section:
    counts = Counter(verdict.outcome for one in study.sets for verdict in overview.verdicts_of(one))
    rows = []
    for one in study.sets:
        cells = sum(len(seeds_of(record)) for records in one.records.values() for record in records)
        seeds = len(set().union(*map(seeds_of, one.good())))
        rows.append(
            [
                Cell(one.title),
                Cell(f"{one.n_vectors:,}", one.n_vectors),
                Cell(f"{one.dimensions:,}", one.dimensions),
                Cell(str(one.classes or "-"), one.classes),
                Cell(str(seeds), seeds),
                Cell(str(cells), cells),
            ]
        )
    names = ("data set", "vectors", "dimensions", "classes", "seeds (retrieval)", "measured cells")
    columns = [Column(name, owner="" if name == "data set" else "ours") for name in names]
    return Section(
        "summary",
        "What was run, and what came out",
        [
            "The tables and figures of Liu, Yu and Shao, Projection Bank (ICCV 2015), measured again on other data "
            "with projbank. The paper's own data (Flickr 1M, ILSVRC2010, UCF101 videos) are not here, so its figures "
            "stand beside ours for comparison of order and ratio, not of level. Lengths are given as D / bits.",
            Table("sets", "Data sets", columns, rows),
            *overview.precision_tables(study.having("")),
            f"Of {counts.total()} checks of the paper's statements, {counts[claims.AGREES]} agree with the paper, "
            f"{counts[claims.DIFFERS]} differ, and {counts[claims.OPEN]} could not be decided because something was "
            "not measured. Each stands with its figures in its section.",
            overview.agreement(study.sets),
        ],
    )


def _retrieval(one: SetInfo) -> Section | None:
    if not one.good():
        return None
    k = one.main_k()
    parts: list[Part] = []
    sentence = claims.joint_sentence(one, k)
    if sentence:
        parts.append(sentence)
    parts.append(tables.retrieval_table(one, k))
    parts += _present(tables.kept_table(one))
    parts.append(claims.retrieval_verdicts(one, k))
    parts += _present(plots.precision_figure(one, k), plots.resources_figure(one))
    others = [other for other in one.ks() if other != k]
    parts += [tables.retrieval_table(one, other) for other in others]
    if any("asymmetric" in record for record in one.good()):
        parts.append(tables.retrieval_table(one, k, "asymmetric"))
    parts += _sources(one, "")
    return Section(f"retrieval-{one.name}", f"Retrieval: {one.title}", parts)


def _cost(study: Study) -> Section | None:
    parts: list[Part] = []
    for one in study.having("cost"):
        parts += [tables.cost_table(one, what) for what in ("storage MB", "training s", "coding ms")]
        parts += _present(plots.coding_figure(one))
        parts.append(claims.cost_verdicts(one))
    return Section("cost", "Cost: storage, training, coding", parts)


def _action(study: Study) -> Section | None:
    parts: list[Part] = []
    for one in study.having("action"):
        parts += [tables.action_table(one), *_sources(one, "action"), claims.action_verdicts(one)]
    return Section("action", "Recognition: a linear SVM on codes", parts)


def _pair_error(study: Study) -> Section | None:
    parts: list[Part] = []
    for one in study.having("pair-error"):
        good = one.good("pair-error")
        if not good:
            continue
        share = good[0]["positive_share"]
        parts += _present(plots.pair_error_figure(one))
        parts.append(
            f"{_setting(one, 'pair-error')} {100 * share:.1f} % of all pairs count as similar. "
            "A bit that splits the data into halves puts half of all pairs on one side, so it is wrong on at least "
            f"about {100 * (0.5 - share):.0f} % of pairs, however good it is."
        )
        parts.append(claims.pair_error_verdicts(one))
    return Section("pair-error", "Pairwise error of the bits", parts)


def _soft(study: Study) -> Section | None:
    parts: list[Part] = []
    for one in study.having("soft"):
        if one.good("soft"):
            k = one.main_k("soft")
            parts.append(_setting(one, "soft"))
            parts += _present(plots.soft_figure(one, k))
            parts.append(claims.soft_verdicts(one, k))
        parts += _reasons(one, "soft")
    return Section("soft", "Soft against hard groups", parts)


def _curves(study: Study) -> Section | None:
    parts: list[Part] = []
    for one in study.having("pr-curves"):
        if one.good("pr-curves"):
            parts.append(_setting(one, "pr-curves"))
        parts += _present(plots.curves_figure(one))
        parts.append(tables.area_table(one))
        parts += _reasons(one, "pr-curves")
    return Section("pr-curves", "Precision against recall", parts)


def _sensitivity(study: Study) -> Section | None:
    parts: list[Part] = []
    for one in study.having("sensitivity"):
        if one.good("sensitivity"):
            k = one.main_k("sensitivity")
            parts.append(_setting(one, "sensitivity"))
            parts += plots.varied_figures(one, k)
            parts.append(claims.sensitivity_verdicts(one, k))
        parts += _reasons(one, "sensitivity")
    return Section("sensitivity", "Lambda and the number of basis samples", parts)


def _diagnosis(study: Study) -> Section | None:
    parts: list[Part] = []
    for one in study.having("diagnosis"):
        parts += claims.diagnosis_sentences(one)
        parts.append(tables.diagnosis_table(one))
        parts += _present(plots.balance_figure(one))
    return Section("diagnosis", "Why: balance, redundancy and groups of the bits", parts)


def _examples(study: Study) -> Section | None:
    parts: list[Part] = [gallery for one in study.having("examples") if (gallery := _gallery(study, one)) is not None]
    if parts:
        parts = [*(_setting(one, "examples") for one in study.having("examples") if one.good("examples")), *parts]
        parts.insert(0, "Queries drawn at random; a tick marks results of the query's class, a cross others.")
    return Section("examples", "Examples", parts)


def _gallery(study: Study, one: SetInfo) -> Gallery | None:
    records = {record["method"]: record for record in one.good("examples")}
    if "original" not in records:
        return None
    bits = max((record["n_bits"] or 0) for record in records.values())
    folder = study.folder / "examples" / one.name

    def picture(row: int, label: object, right: bool | None) -> Picture:
        return Picture(folder / f"{row}.jpg", one.class_names.get(str(label), str(label)), right)

    queries = []
    asked = records["original"]
    for i, (row, label) in enumerate(zip(asked["queries"], asked["query_labels"], strict=True)):
        found = []
        for method in sorted(records, key=lambda name: (name != "original", name != "joint", order_of(name))):
            title = "floats" if method == "original" else f"{method_name(method)}, {bits:,} bits"
            pairs = zip(records[method]["found"][i], records[method]["found_labels"][i], strict=True)
            found.append((title, [picture(near, other, other == label) for near, other in pairs]))
        queries.append((picture(row, label, None), found))
    title = f"{one.title}: query, and nearest by floats and by codes of {bits:,} bits"
    return Gallery(f"{one.name}-examples", title, queries)


def _machines(study: Study) -> Section:
    records = study.all_records()
    machines = Counter(
        "{cpu}, {cores} cores, Python {python}, {system}".format(**record["machine"]) for record in records
    )
    dates = sorted(record["date"] for record in records)
    lines = [f"{count} cells on {name}." for name, count in machines.most_common()]
    parts: list[Part] = [*lines, f"Measured from {dates[0]} to {dates[-1]}."]
    if study.commands:
        parts += ["Cells that no other run had measured came from these commands:", Code(tuple(study.commands))]
    return Section("machines", "Machines, dates and commands", parts)


def _setting(one: SetInfo, protocol: str) -> str:
    """How much data a protocol was run on."""
    counts = [len(records) for records in _cells(one, protocol)]
    least, most = min(counts), max(counts)
    seeds = "one seed" if most == 1 else f"{most} seeds" if least == most else f"{least} to {most} seeds"
    training = one.good(protocol)[0]["protocol"]["training"]
    return f"{one.title}: {training:,} training vectors, {seeds}."


def _sources(one: SetInfo, protocol: str) -> list[Part]:
    """Where records of means over several seeds come from; those of seeds that were measured again are not used."""
    used = [record for records in _cells(one, protocol) for record in without_repeats(records)]
    counts = Counter(record["source"] for record in used if "seeds" in record)
    return [f"{one.title}: {n} of the measured means were taken over, {source}" for source, n in counts.items()]


def _cells(one: SetInfo, protocol: str) -> list[list[Record]]:
    """Records of a protocol, those that differ in the seed only together."""
    cells: dict[tuple[str, int | None, str], list[Record]] = {}
    for record in one.good(protocol):
        key = (record["method"], record["n_bits"], str(sorted(record["params"].items())))
        cells.setdefault(key, []).append(record)
    return list(cells.values())


def _reasons(one: SetInfo, protocol: str) -> list[Part]:
    failures = tables.failures(one.failed(protocol))
    return [f"{one.title}: {line}" for line in failures]


def _present(*parts: Table | Figure | None) -> list[Part]:
    return [part for part in parts if part is not None]


def all_figures(sections: list[Section]) -> list[Figure]:
    """Every plot of the report."""
    return [part for section in sections for part in section.parts if isinstance(part, Figure)]
