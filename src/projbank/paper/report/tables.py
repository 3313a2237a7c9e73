"""The tables: ours and the paper's figures side by side, at equal D / bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from projbank.evaluate.results import Record
from projbank.paper.report import paper
from projbank.paper.report.content import Cell, Column, Table, decimal, mark_best, number, three_digits, with_spread
from projbank.paper.report.study import REAL_METHODS, SetInfo, method_name, order_of

BEST = (
    "Bold: the best of the binary methods whose length can be chosen; one seed does not count beside means of several."
)
COSTS = {
    "storage MB": ("model_bytes", 1e-6),
    "training s": ("training_seconds", 1.0),
    "coding ms": ("coding_seconds", 1e3),
}
"""What records call a measure of cost, and its unit."""
REAL_NUMBERS = "PCA, PKA and RR give as many real numbers as others give bits, so their codes are 32 times as long."

Beside = list[tuple[Column, Callable[..., float | None]]]
"""Columns of the paper's figures, and the figure of each method."""


def retrieval_table(one: SetInfo, k: int, score: str = "precision") -> Table:
    """Precision after k results: methods by lengths, then the paper's figures at the lengths that both have."""
    asymmetric = score == "asymmetric"
    shared = [r for r in one.ratios() if not asymmetric and paper.precision("Flickr 1M", one.kind, "bpb", k, r)]
    beside: Beside = [
        (Column(f"D/{ratio}", source, paper=True), partial(paper.precision, source, one.kind, k=k, ratio=ratio))
        for source in paper.RETRIEVAL
        for ratio in shared
    ]
    notes = [_sizes(one), *([] if asymmetric else [REAL_NUMBERS]), BEST]
    title = f"{one.title}: precision at {k}{' with real-valued queries (asymmetric)' if asymmetric else ''}"
    ours = _means(one, "", (score, str(k)))
    return _by_length(one, f"p{k}{'-asymmetric' if asymmetric else ''}", title, "", ours, beside, notes)


def cost_table(one: SetInfo, what: str) -> Table:
    """One measure of cost by method and length, ours and the paper's; lower is better."""
    word, scale = COSTS[what]

    def ours(method: str, ratio: int) -> Cell:
        least = one.least(method, ratio, word)
        return number(None if least is None else scale * least, three_digits)

    shared = [ratio for ratio in one.ratios("cost") if ratio in paper.COST_RATIOS]
    beside: Beside = [(Column(f"D/{r}", "64,000-d", paper=True), partial(paper.cost, what, ratio=r)) for r in shared]
    protocol = one.records["cost"][0]["protocol"]
    loads = [record["load"] for record in one.good("cost") if record.get("load") is not None]
    busy = f" The machine's load was {min(loads):.1f} to {max(loads):.1f} meanwhile." if loads else ""
    notes = {
        "storage MB": "Ours in single precision with group numbers, the paper's in double precision.",
        "training s": f"{protocol['training']:,} training vectors here, 150,000 in the paper.{busy}",
        "coding ms": f"One vector, on one thread, in a batch of {protocol['coded']}.{busy}",
    }
    name, title = f"cost-{what.partition(' ')[0]}", f"{one.title}: {what}"
    return _by_length(one, name, title, "cost", ours, beside, [notes[what]], write=three_digits, lowest=True)


def action_table(one: SetInfo) -> Table:
    """Accuracy of a linear SVM in per cent."""
    kind = one.kind or "fv"
    shared = [ratio for ratio in one.ratios("action") if ratio in paper.ACTION_RATIOS]
    where = f"UCF101, {kind.upper()}"
    beside: Beside = [(Column(f"D/{r}", where, paper=True), partial(paper.accuracy, kind, ratio=r)) for r in shared]
    protocol = one.records["action"][0]["protocol"]
    sizes = protocol.get("fold_sizes")
    each = f" ({sizes[0][0]:,} for training, {sizes[0][1]:,} for testing)" if sizes else ""
    data = f"{one.n_vectors:,} vectors of {one.dimensions:,} dimensions, folds: {protocol['folds']}{each}"
    title = f"{one.title}: accuracy of a linear SVM in per cent"
    ours, one_digit = _means(one, "action", ("accuracy",), 1), partial(decimal, digits=1)
    return _by_length(
        one, "action", title, "action", ours, beside, [f"{data}; {protocol['svm']}.", BEST], write=one_digit
    )


def area_table(one: SetInfo) -> Table:
    """Areas under the precision-recall curves."""
    title = f"{one.title}: area under the precision-recall curve"
    return _by_length(one, "area", title, "pr-curves", _means(one, "pr-curves", ("area",)), [], [BEST])


def failures(one: SetInfo, protocol: str) -> list[str]:
    """One line per method and reason."""
    reasons: dict[tuple[str, str], set[int]] = {}
    for record in one.records.get(protocol, []):
        if "error" in record:
            reasons.setdefault((record["method"], record["error"]), set()).add(record["n_bits"] or 0)
    return [
        f"{method_name(method)} failed at {', '.join(f'{n:,}' for n in sorted(bits))} bits: {error}"
        for (method, error), bits in reasons.items()
    ]


def _by_length(
    one: SetInfo,
    name: str,
    title: str,
    protocol: str,
    ours: Callable[[str, int], Cell],
    beside: Beside,
    notes: Iterable[str],
    *,
    write: Callable[[float], str] = decimal,
    lowest: bool = False,
) -> Table:
    """Methods by lengths, the paper's figures beside; rows without any number are left out."""
    ratios = one.ratios(protocol)
    theirs = paper.RETRIEVAL["Flickr 1M"] if beside and protocol == "" else ()
    rows, competing = [], []
    for method in sorted({*one.methods(protocol), *theirs}, key=order_of):
        records = [record for record in one.good(protocol) if record["method"] == method]
        cells = [ours(method, ratio) for ratio in ratios]
        cells += [number(look(method=method), write) for _, look in beside]
        if any(cell.value is not None for cell in cells):
            rows.append([Cell(_with_length(method, records)), *cells])
            free = not records or records[0]["n_bits"] is not None
            competing.append(lowest or (free and method not in REAL_METHODS))
    columns = [Column("method"), *(Column(f"D/{ratio}", f"{one.dimensions // ratio:,} bits") for ratio in ratios)]
    counts = {cell.n for row in rows for cell in row[1 : 1 + len(ratios)] if cell.value is not None}
    return Table(
        f"{one.name}-{name}",
        title,
        columns + [column for column, _ in beside],
        mark_best(rows, competing, lowest=lowest),
        [*notes, *([] if lowest else _seeds(counts)), *failures(one, protocol)],
    )


def _means(one: SetInfo, protocol: str, words: Iterable[str], digits: int = 3) -> Callable[[str, int], Cell]:
    return lambda method, ratio: with_spread(one.mean(method, ratio, words, protocol), digits)


def _with_length(method: str, records: list[Record]) -> str:
    """Name of a method; one whose length follows from the data stands with that length."""
    fixed = method != "original" and records and records[0]["n_bits"] is None
    return method_name(method) + (f" ({records[0]['bits']:,} bits)" if fixed and "bits" in records[0] else "")


def _seeds(counts: set[int]) -> list[str]:
    """How many seeds the means of a table are of."""
    if max(counts, default=1) == 1:
        return ["* One seed."]
    several = sorted(counts - {1})
    span = f"{several[0]}" if len(several) == 1 else f"{several[0]} to {several[-1]}"
    return [f"Mean ± standard deviation over {span} seeds{'; * one seed' if 1 in counts else ''}."]


def _sizes(one: SetInfo) -> str:
    protocol = one.records[""][0]["protocol"]
    return (
        f"{one.n_vectors:,} vectors of {one.dimensions:,} dimensions, {one.classes or 'unknown number of'} classes; "
        f"{protocol['queries']:,} random queries, {one.n_vectors - protocol['queries']:,} in the gallery, "
        f"{protocol['training']:,} of them for training."
    )
