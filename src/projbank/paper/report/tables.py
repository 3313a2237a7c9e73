"""The tables: ours and the paper's figures side by side, at equal D / bits."""

from __future__ import annotations

from projbank.evaluate.results import Record
from projbank.paper.report import paper
from projbank.paper.report.content import Cell, Column, Table, decimal, mark_best, number, with_spread
from projbank.paper.report.study import REAL_METHODS, Mean, SetInfo, mean_of, method_name, order_of

BEST = (
    "Bold: the best of the binary methods whose length can be chosen; one seed does not count beside means of several."
)
_COSTS = {
    "storage MB": ("model_bytes", 1e-6),
    "training s": ("training_seconds", 1.0),
    "coding ms": ("coding_seconds", 1e3),
}
"""What records call a measure of cost, and its unit."""
REAL_NUMBERS = "PCA, PKA and RR give as many real numbers as others give bits, so their codes are 32 times as long."


def retrieval_table(one: SetInfo, k: int, score: str = "precision") -> Table:
    """Precision after k results: methods by lengths, then the paper's figures at the lengths that both have."""
    ratios = one.ratios()
    beside = [(source, ratio) for source in paper.RETRIEVAL for ratio in ratios if _paper_has(one, k, ratio, score)]
    asymmetric = score == "asymmetric"
    listed = [m for m in one.methods() if not (asymmetric and m in REAL_METHODS)]
    shown = _with_paper_rows(listed, bool(beside))
    means = {method: [one.precision(method, ratio, k, score=score) for ratio in ratios] for method in shown}
    rows = [
        [_name(one, method)]
        + [with_spread(mean) for mean in means[method]]
        + [number(paper.precision(source, one.kind, method, k, ratio)) for source, ratio in beside]
        for method in shown
    ]
    competing = [_competes(one, method) for method in shown]
    columns = [Column("method", owner="")]
    columns += [Column(f"D/{ratio}", f"{one.bits(ratio):,} bits") for ratio in ratios]
    columns += [Column(f"D/{ratio}", source, "paper") for source, ratio in beside]
    suffix = "-asymmetric" if asymmetric else ""
    how = " with real-valued queries (asymmetric)" if asymmetric else ""
    return Table(
        f"{one.name}-p{k}{suffix}",
        f"{one.title}: precision at {k}{how}",
        columns,
        _filled(mark_best(rows, competing)),
        (
            _sizes(one),
            *([] if asymmetric else [REAL_NUMBERS]),
            BEST,
            _seeds(means),
            *_exceptions(one),
            *failures(one.failed()),
        ),
    )


def kept_table(one: SetInfo, k: int = 50) -> Table | None:
    """What share of the floats' precision is left, ours and the paper's: the fair comparison of different data."""
    ratios = [ratio for ratio in one.ratios() if ratio in paper.RATIOS]
    if one.kind not in ("fv", "vlad") or not ratios or k not in one.ks():
        return None
    rows = []
    shown = [method for method in _with_paper_rows(one.methods(), True) if method != "original"]
    for method in shown:
        cells = [_name(one, method)]
        for ratio in ratios:
            ours, floats = one.precision(method, ratio, k), _floats_beside(one, method, ratio, k)
            cells.append(_percent(ours.value if ours else None, floats.value if floats else None))
        for source in paper.RETRIEVAL:
            for ratio in ratios:
                shares = [paper.precision(source, one.kind, name, k, ratio) for name in (method, "original")]
                cells.append(_percent(*shares))
        rows.append(cells)
    columns = [Column("method", owner="")] + [Column(f"D/{ratio}", "here") for ratio in ratios]
    columns += [Column(f"D/{ratio}", source, "paper") for source in paper.RETRIEVAL for ratio in ratios]
    title = f"{one.title}: precision at {k} in per cent of that of the floats"
    return Table(
        f"{one.name}-kept", title, columns, _filled(mark_best(rows, [_competes(one, m) for m in shown])), (BEST,)
    )


def _floats_beside(one: SetInfo, method: str, ratio: int, k: int) -> Mean | None:
    """Precision of the floats on the splits that a method was measured on, or on all where those were not kept."""
    same = one.precision("original", ratio, k, seeds=one.seeds(method, ratio) or None)
    return same or one.precision("original", ratio, k)


def cost_table(one: SetInfo, what: str) -> Table:
    """One measure of cost by method and length, ours and the paper's; lower is better."""
    ratios = one.ratios("cost")
    word, scale = _COSTS[what]
    rows = []
    for method in one.methods("cost"):
        cells = [Cell(method_name(method))]
        for ratio in ratios:
            value = one.cost(method, ratio, word)
            cells.append(_rounded(None if value is None else scale * value))
        cells += [_rounded(paper.cost(what, method, ratio)) for ratio in ratios if ratio in paper.COST_RATIOS]
        rows.append(cells)
    columns = [Column("method", owner="")] + [Column(f"D/{ratio}", f"{one.bits(ratio):,} bits") for ratio in ratios]
    columns += [Column(f"D/{ratio}", "64,000-d", "paper") for ratio in ratios if ratio in paper.COST_RATIOS]
    protocol = one.records["cost"][0]["protocol"]
    loads = [record["load"] for record in one.good("cost") if record.get("load") is not None]
    notes = {
        "storage MB": "Ours in single precision with group numbers, the paper's in double precision.",
        "training s": f"{protocol['training']:,} training vectors here, 150,000 in the paper.",
        "coding ms": f"One vector, on one thread, in a batch of {protocol['coded']}.",
    }
    busy = f"The machine's load was {min(loads):.1f} to {max(loads):.1f} while this was measured." if loads else ""
    return Table(
        f"{one.name}-cost-{what.partition(' ')[0]}",
        f"{one.title}: {what}",
        columns,
        mark_best(rows, [True] * len(rows), lowest=True),
        (notes[what], *([busy] if what != "storage MB" and busy else []), *failures(one.failed("cost"))),
    )


def action_table(one: SetInfo) -> Table:
    """Accuracy of a linear SVM in per cent."""
    ratios = one.ratios("action")
    kind = one.kind or "fv"
    beside = [ratio for ratio in ratios if ratio in paper.ACTION_RATIOS]
    rows, means = [], {}
    for method in one.methods("action"):
        means[method] = [one.accuracy(method, ratio) for ratio in ratios]
        cells = [_name(one, method, "action"), *(with_spread(mean, 1) for mean in means[method])]
        rows.append(cells + [number(paper.accuracy(kind, method, ratio), 1) for ratio in beside])
    columns = [Column("method", owner="")] + [Column(f"D/{ratio}", f"{one.bits(ratio):,} bits") for ratio in ratios]
    columns += [Column(f"D/{ratio}", f"UCF101, {kind.upper()}", "paper") for ratio in beside]
    protocol = one.records["action"][0]["protocol"]
    sizes = protocol.get("fold_sizes")
    drawn = f"{protocol['folds']} fold{'' if protocol['folds'].startswith('1 ') else 's'}" + (
        f" ({sizes[0][0]:,} for training, {sizes[0][1]:,} for testing)" if sizes else ""
    )
    return Table(
        f"{one.name}-action",
        f"{one.title}: accuracy of a linear SVM in per cent",
        columns,
        mark_best(rows, [_competes(one, method, "action") for method in one.methods("action")]),
        (
            f"{one.n_vectors:,} vectors of {one.dimensions:,} dimensions, {drawn}; {protocol['svm']}.",
            BEST,
            _seeds(means),
            *failures(one.failed("action")),
        ),
    )


def diagnosis_table(one: SetInfo) -> Table:
    """Balance, redundancy and group sizes of the bits."""
    rows = []
    records = sorted(one.good("diagnosis"), key=lambda r: (order_of(r["method"]), r["n_bits"] or 0, r["seed"]))
    for record in records:
        if record["seed"] != records[0]["seed"]:
            continue
        sizes = record.get("group_sizes")
        rows.append(
            [
                Cell(method_name(record["method"])),
                Cell(f"{record['bits']:,}", record["bits"]),
                number(record["imbalance"]),
                Cell(str(record["constant"]), record["constant"]),
                number(record["correlation"]),
                Cell(f"{100 * record['near_copies']:.1f} %", record["near_copies"]),
                Cell(f"{record['independent']:,.0f}", record["independent"]),
                Cell(" / ".join(f"{size:g}" for size in sizes), sizes[2]) if sizes else Cell("-"),
            ]
        )
    columns = [
        Column("method", owner=""),
        Column("bits"),
        Column("imbalance", "mean |P(1) - 1/2|"),
        Column("constant", "bits"),
        Column("correlation", "mean, absolute"),
        Column("near copies", "bits above .9"),
        Column("independent", "bits, in effect"),
        Column("group sizes", "least / quartiles / most"),
    ]
    protocol = one.records["diagnosis"][0]["protocol"]
    note = (
        f"{protocol['training']:,} training vectors, one seed; bits of the gallery's "
        f"{one.n_vectors - protocol['queries']:,} vectors."
    )
    return Table(
        f"{one.name}-diagnosis", f"{one.title}: the bits", columns, rows, (note, *failures(one.failed("diagnosis")))
    )


def area_table(one: SetInfo) -> Table:
    """Areas under the precision-recall curves."""
    methods = one.methods("pr-curves")
    lengths, means = [], {}
    for method in methods:
        records = one.plain(method, "pr-curves")
        longest = max((r["n_bits"] or 0 for r in records), default=0)
        lengths.append(Cell(f"{longest:,}" if longest else "own length", longest))
        means[method] = [mean_of([r for r in records if (r["n_bits"] or 0) == longest], "area")]
    areas = [[Cell(method_name(method)), with_spread(means[method][0])] for method in methods]
    marked = mark_best(areas, [_competes(one, method, "pr-curves") for method in methods])
    rows = [[name, length, area] for (name, area), length in zip(marked, lengths, strict=True)]
    columns = [Column("method", owner=""), Column("bits"), Column("area")]
    title = f"{one.title}: area under the precision-recall curve"
    return Table(f"{one.name}-area", title, columns, rows, (BEST, _seeds(means)))


def _seeds(means: dict[str, list[Mean | None]]) -> str:
    """How many seeds the means are of, and which methods have fewer."""
    counts = {method_name(method): {mean.n for mean in row if mean} for method, row in means.items()}
    most = max(set().union(*counts.values()), default=1)
    if most == 1:
        return "* One seed."
    fewer = [f"{name} ({_span(found)})" for name, found in counts.items() if found and min(found) < most]
    note = f"Mean ± deviation over {most} seeds" + (", fewer of " + ", ".join(fewer) if fewer else "")
    return note + ("; * one seed." if any(1 in found for found in counts.values()) else ".")


def _exceptions(one: SetInfo) -> list[str]:
    """Which methods were measured with other parameters at some lengths."""
    return [
        f"{method_name(method)} at {' and '.join(f'{n:,}' for n in bits)} bits: {words}."
        for method in one.methods()
        for words, bits in one.exceptions(method).items()
    ]


def _span(numbers: set[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else f"{min(numbers)}"


def _competes(one: SetInfo, method: str, protocol: str = "") -> bool:
    """Whether a method may be marked as the best of a length: it is binary, and its length can be chosen."""
    records = one.plain(method, protocol)
    return method not in REAL_METHODS and (not records or records[0]["n_bits"] is not None)


def _filled(rows: list[list[Cell]]) -> list[list[Cell]]:
    """Rows with at least one number."""
    return [row for row in rows if any(cell.value is not None for cell in row)]


def _name(one: SetInfo, method: str, protocol: str = "") -> Cell:
    """Name of a method; one whose length follows from the data stands with that length."""
    records = one.plain(method, protocol)
    if method == "original" or not records or records[0]["n_bits"] is not None:
        return Cell(method_name(method))
    return Cell(f"{method_name(method)} ({records[0]['bits']:,} bits)")


def _rounded(value: float | None) -> Cell:
    """Three significant digits, for values that range from microseconds to hours."""
    if value is None:
        return Cell("-")
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return Cell(decimal(value, digits), value)


def _percent(part: float | None, whole: float | None) -> Cell:
    return Cell("-") if part is None or not whole else Cell(f"{100 * part / whole:.0f} %", part / whole)


def _paper_has(one: SetInfo, k: int, ratio: int, score: str) -> bool:
    return score == "precision" and paper.precision("Flickr 1M", one.kind, "bpb", k, ratio) is not None


def _with_paper_rows(methods: list[str], beside: bool) -> list[str]:
    """Measured methods, and those that only the paper has, in the order of the tables."""
    names = {*methods, *(paper.RETRIEVAL["Flickr 1M"] if beside else ())}
    return sorted(names, key=order_of)


def _sizes(one: SetInfo) -> str:
    protocol = one.records[""][0]["protocol"]
    gallery = one.n_vectors - protocol["queries"]
    return (
        f"{one.n_vectors:,} vectors of {one.dimensions:,} dimensions, {one.classes or 'unknown number of'} classes; "
        f"{protocol['queries']:,} random queries, {gallery:,} in the gallery, "
        f"{protocol['training']:,} of them for training."
    )


def failures(records: list[Record]) -> list[str]:
    """One line per method and reason."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for record in records:
        reasons.setdefault((record["method"], record["error"]), []).append(record["n_bits"] or 0)
    return [
        f"{method_name(method)} failed at {', '.join(f'{n:,}' for n in sorted(set(bits)))} bits: {error}"
        for (method, error), bits in reasons.items()
    ]
