"""The tables: ours and the paper's figures side by side, at equal D / bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from projbank.paper.report import paper
from projbank.paper.report.content import Cell, Column, Table, decimal, mark_best, number, three_digits, with_spread
from projbank.paper.report.study import REAL_METHODS, SetInfo, method_name, order_of

BEST = (
    "Mean ± standard deviation over seeds; * one seed. Bold: the best of the binary methods whose length can be "
    "chosen; one seed does not count beside means of several."
)
REAL_NUMBERS = "PCA, PKA and RR give as many real numbers as others give bits, so their codes are 32 times as long."
WHOLE = {"map": "mean average precision", "area": "area under precision against recall"}
"""What is measured on the ranking of the whole gallery."""
COSTS = {
    "storage MB": ("model_bytes", 1e-6),
    "training s": ("training_seconds", 1.0),
    "coding µs": ("coding_seconds", 1e6),
}
"""What records call a measure of cost, and its unit."""


def retrieval_table(one: SetInfo, k: int, score: str = "precision") -> Table:
    """Precision after k results: methods by lengths, then the paper's figures at the lengths that both have."""
    asymmetric, sizes = score == "asymmetric", one.records[""][0]["protocol"]
    data = (
        f"{one.describe()}; {sizes['queries']:,} random queries, {one.n_vectors - sizes['queries']:,} in the gallery, "
        f"{sizes['training']:,} of them for training."
    )
    known = (
        {}
        if asymmetric
        else {paper.place(s, one.kind): partial(paper.precision, s, one.kind, k=k) for s in paper.RETRIEVAL}
    )
    title = f"{one.title}: precision at {k}{' with real-valued queries (asymmetric)' if asymmetric else ''}"
    theirs = [f"The paper: {source}, {words}." for source, words in paper.DATA.items() if source in paper.RETRIEVAL]
    beside = theirs if any(look(method="bpb", ratio=r) for look in known.values() for r in one.ratios()) else []
    notes = [data, *beside, *([] if asymmetric else [REAL_NUMBERS]), BEST]
    return _by_length(one, f"p{k}-{score}", title, "", _means(one, "", (score, str(k))), known, notes)


def cost_table(one: SetInfo, what: str) -> Table:
    """One measure of cost by method and length, ours and the paper's; lower is better.

    Of all seeds the least counts: what other work on the machine added is no cost.
    """
    word, scale = COSTS[what]

    def ours(method: str, ratio: int) -> Cell:
        values = [scale * record[word] for record in one.at(method, ratio, "cost")]
        return number(min(values, default=None), three_digits)

    protocol = one.records["cost"][0]["protocol"]
    loads = [record["load"] for record in one.good("cost") if record.get("load") is not None]
    busy = f" The machine's load was {min(loads):.1f} to {max(loads):.1f} meanwhile." if loads else ""
    notes = {
        "storage MB": "Ours in single precision with group numbers, the paper's in double precision.",
        "training s": f"{protocol['training']:,} training vectors here, 150,000 in the paper.{busy}",
        "coding µs": f"One vector, on one thread, in a batch of {protocol['coded']}.{busy}",
    }
    known = {paper.place("ILSVRC2010", "fv"): partial(paper.cost, what)}
    name, title = f"cost-{what.partition(' ')[0]}", f"{one.title}: {what}"
    return _by_length(one, name, title, "cost", ours, known, [notes[what]], write=three_digits, lowest=True)


def action_table(one: SetInfo) -> Table:
    """Accuracy of a linear SVM in per cent."""
    kind, protocol = one.kind or "fv", one.records["action"][0]["protocol"]
    (train, test), *_ = protocol.get("fold_sizes", [(0, 0)])
    each = f" ({train:,} for training, {test:,} for testing)" if train else ""
    notes = [f"{one.describe()}, folds: {protocol['folds']}{each}; {protocol['svm']}."]
    notes += [f"The paper: UCF101, {paper.DATA['UCF101']}.", BEST]
    known, write = {paper.place("UCF101", kind): partial(paper.accuracy, kind)}, partial(decimal, digits=1)
    title, ours = f"{one.title}: accuracy of a linear SVM in per cent", _means(one, "action", ("accuracy",), 1)
    return _by_length(one, "action", title, "action", ours, known, notes, write=write)


def area_table(one: SetInfo) -> Table:
    """Areas under the precision-recall curves."""
    title = f"{one.title}: area under the precision-recall curve"
    return _by_length(one, "area", title, "pr-curves", _means(one, "pr-curves", ("area",)), {}, [BEST])


def whole_table(one: SetInfo, word: str) -> Table:
    """A measure of the ranking of the whole gallery."""
    return _by_length(one, word, f"{one.title}: {WHOLE[word]}", "", _means(one, "", (word,)), {}, [BEST])


def tuned_table(one: SetInfo, k: int) -> Table:
    """Precision with parameters chosen on held-out vectors, and which were chosen."""
    chosen = {(r["method"], r["n_bits"]): r["chosen"] for r in one.good("tuned") if r.get("chosen")}
    lines = sorted(
        {f"{method_name(m)}: {', '.join(f'{w} {v:g}' for w, v in c.items())}" for (m, _), c in chosen.items()}
    )
    title, ours = f"{one.title}: precision at {k}, chosen parameters", _means(one, "tuned", ("precision", str(k)))
    return _by_length(one, "tuned", title, "tuned", ours, {}, [*lines, BEST])


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
    known: Mapping[str, Callable[..., float | None]],
    notes: Iterable[str],
    *,
    write: Callable[[float], str] = decimal,
    lowest: bool = False,
) -> Table:
    """Methods by lengths, with the paper's figures (`known`, by their source); rows without any number are left out."""
    ratios = one.ratios(protocol)
    beside = [(source, look, r) for source, look in known.items() for r in ratios if look(method="bpb", ratio=r)]
    theirs = paper.RETRIEVAL["Flickr 1M"] if beside and protocol == "" else ()
    rows, competing = [], []
    for method in sorted({*one.methods(protocol), *theirs}, key=order_of):
        cells = [ours(method, ratio) for ratio in ratios]
        cells += [number(look(method=method, ratio=ratio), write) for _, look, ratio in beside]
        if any(cell.value is not None for cell in cells):
            bits = [record.get("bits") for record in one.at(method, None, protocol)]  # of a length that can't be chosen
            length = f" ({bits[0]:,} bits)" if bits and bits[0] and method != "original" else ""
            rows.append([Cell(method_name(method) + length), *cells])
            competing.append(lowest or (not bits and method not in REAL_METHODS))
    columns = [Column("method"), *(Column(f"D/{ratio}", f"{one.dimensions // ratio:,} bits") for ratio in ratios)]
    columns += [Column(f"D/{ratio}", source, paper=True) for source, _, ratio in beside]
    marked = mark_best(rows, competing, lowest=lowest)
    return Table(f"{one.name}-{name}", title, columns, marked, [*notes, *failures(one, protocol)])


def _means(one: SetInfo, protocol: str, words: Iterable[str], digits: int = 3) -> Callable[[str, int], Cell]:
    return lambda method, ratio: with_spread(one.mean(method, ratio, words, protocol), digits)
