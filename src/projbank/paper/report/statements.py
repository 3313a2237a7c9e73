"""What the paper says, judged at every length and on every set: its figures, ours, and whether they agree."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from projbank.evaluate.results import Mean
from projbank.paper.report import paper
from projbank.paper.report.content import Cell, Column, Table, decimal, three_digits
from projbank.paper.report.study import SetInfo, method_name

AGREES, DIFFERS, OPEN = "agrees", "differs", "open"
SMALL = 1_000
"""Vectors below which a set gets no verdicts: chance decides."""


class Measure(NamedTuple):
    """Figures of a protocol: the word that records have, and a factor for the unit that is shown."""

    protocol: str = ""
    word: str = "precision"
    scale: float = 1.0


class Verdict(NamedTuple):
    """Whether a statement holds at a length, D / bits (None: it names its lengths itself), and by which figures.

    `seeds` is the number of seeds over which all of the figures are means.
    """

    ratio: int | None
    outcome: str
    figures: dict[str, float]
    seeds: int = 1


Judge = Callable[["SetInfo", Sequence["SetInfo"]], list[Verdict]]


class Statement(NamedTuple):
    """A statement, and the order of figures that it claims.

    Each figure before a ">" is at least (1 - slack) of each after it; with "=", of each other. It is judged at each
    length that was measured, unless a method is at some length: "@16" is D/16, "@shortest" the shortest and "@longest"
    the longest codes measured. "a - b" is a difference. `judge` is for statements of another kind.
    """

    text: str
    order: str
    measure: Measure = Measure()
    slack: float = 0.01
    judge: Judge | None = None


def _fisher_above_vlad(one: SetInfo, sets: Sequence[SetInfo]) -> list[Verdict]:
    """Means over the methods that were measured on the Fisher vectors of a set and on its VLAD."""
    other = next((s for s in sets if s.kind == "vlad" and s.name == one.name.replace("fv", "vlad")), None)
    if one.kind != "fv" or other is None:
        return []
    verdicts = []
    for ratio in one.ratios():
        words = ("precision", str(one.main_k()))
        pairs = [(one.mean(m, ratio, words), other.mean(m, ratio, words)) for m in one.methods() if m != "alpha0"]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        if both:
            fisher, vlad = (sum(mean.value for mean in means) / len(both) for means in zip(*both, strict=True))
            figures = {"mean of methods, Fisher": fisher, "VLAD": vlad}
            verdicts.append(_verdict(ratio, fisher >= vlad, figures, _least_seeds(both)))
    return verdicts


def _gaps(one: SetInfo, sets: Sequence[SetInfo]) -> list[Verdict]:
    """Spread between the best and the worst binary method, in parts of the best, in recognition and in retrieval."""
    verdicts = []
    for ratio in one.ratios("action"):
        names = [m for m in one.methods("action") if m in BINARY]
        places = (("action", ("accuracy",)), ("", ("precision", str(one.main_k()))))
        found = [[one.mean(m, ratio, words, protocol) for m in names] for protocol, words in places]
        both = [(a, b) for a, b in zip(*found, strict=True) if a is not None and b is not None]
        if len(both) > 2:
            values = [[mean.value for mean in means] for means in zip(*both, strict=True)]
            svm, retrieval = (100 * (1 - min(one) / max(one)) for one in values)
            figures = {"SVM gap %": svm, "retrieval gap %": retrieval}
            verdicts.append(_verdict(ratio, svm < retrieval, figures, _least_seeds(both)))
    return verdicts


def _drops(one: SetInfo, sets: Sequence[SetInfo]) -> list[Verdict]:
    """What is lost from the longest to the shortest codes, in per cent: by BPB, and by each of the others."""
    ratios, words = one.ratios(), ("precision", str(one.main_k()))
    ends = {m: [one.mean(m, ratio, words) for ratio in (ratios[-1], ratios[0])] for m in DROPPING if ratios}
    both = {m: (a, b) for m, (a, b) in ends.items() if a is not None and b is not None}
    if len(ratios) < 2 or "bpb" not in both or len(both) < 2:
        return []
    lost = {f"{m} loss %": 100 * (1 - b.value / a.value) for m, (a, b) in both.items()}
    own, *others = lost.values()
    return [_verdict(None, own < min(others), lost, _least_seeds(list(both.values())))]


def _verdict(ratio: int | None, holds: bool, figures: dict[str, float], seeds: int) -> Verdict:
    return Verdict(ratio, AGREES if holds else DIFFERS, figures, seeds)


def _least_seeds(means: Sequence[tuple[Mean, Mean]]) -> int:
    return min(mean.n for pair in means for mean in pair)


DROPPING = ("bpb", "lsh", "cbe", "bpbc")
BINARY = ("lsh", "sph", "bpbc", "cbe", "bpb", "bpb-equal", "kbpb-poly", "kbpb-rbf", "kbpb-rbf-equal")
CODING, TRAINING = Measure("cost", "coding_seconds", 1e6), Measure("cost", "training_seconds")
STORAGE, AREA = Measure("cost", "model_bytes", 1e-6), Measure("", "area")
SVM, PAIRS = Measure("action", "accuracy"), Measure("pair-error", "pair_error")
SOFT, VARIED, CHOSEN = Measure("soft"), Measure("sensitivity"), Measure("tuned")
LAM = "{0} lam=1.0 > {0} lam=0.001, {0} lam=0.01, {0} lam=0.1, {0} lam=10.0, {0} lam=100.0"
N = "kbpb-rbf n_basis=1000 > kbpb-rbf n_basis=1500"
OTHERS = "cbe, bpbc, lsh, sph, sign, alpha0"
STATEMENTS = (
    Statement("BPB keeps the floats' precision.", "bpb > original"),
    Statement("The same, equal groups.", "bpb-equal > original"),
    Statement("The same, lambda chosen.", "bpb > original", CHOSEN),
    Statement("BPB is level with CBE, above other bits.", f"bpb > {OTHERS}"),
    Statement("The same, equal groups.", f"bpb-equal > {OTHERS}"),
    Statement(
        "KBPB leads, then BPB, at every length.",
        f"kbpb-rbf > kbpb-poly > bpb > kmeans+itq, randst+bpb, pq, rr+pq, {OTHERS}",
        slack=0,
    ),
    Statement("Kmeans+ITQ and RandST+BPB are below BPB.", "bpb > kmeans+itq, randst+bpb"),
    Statement("Kmeans+ITQ is above RandST+BPB.", "kmeans+itq > randst+bpb"),
    Statement("Kernels help: RBF, then polynomial.", "kbpb-rbf > kbpb-poly > bpb"),
    Statement("KBPB gains more with long codes.", "kbpb-rbf - bpb@longest > kbpb-rbf - bpb@shortest", slack=0),
    Statement("KBPB (RBF) is above the floats.", "kbpb-rbf > original", slack=0),
    Statement("CBE is the strongest earlier method.", "cbe > bpbc, lsh, sph, sign, alpha0"),
    Statement("Signs of the vector are worst.", "cbe, bpbc, lsh, sph, alpha0 > sign"),
    Statement("LSH, SpH and alpha = 0 are alike.", "lsh = sph = alpha0", slack=0.2),
    Statement("Fisher vectors are above VLAD.", "Fisher > VLAD", judge=_fisher_above_vlad),
    Statement("A random rotation helps PQ.", "rr+pq > pq", slack=0),
    Statement("D/16 bits of BPB lose little.", "bpb@16 > bpb@8", slack=0.05),
    Statement("Shorter codes cost BPB least (%).", "loss of BPB < of LSH, CBE, BPBC", judge=_drops),
    Statement("BPB has the largest area (AUC).", f"bpb > {OTHERS}", AREA),
    Statement("The same, equal groups.", f"bpb-equal > {OTHERS}", AREA),
    Statement("BPB codes fastest (µs).", "rr, rr+pq, bpbc, cbe, kbpb-rbf > bpb", CODING),
    Statement("Its time ignores the length (µs).", "bpb@shortest > bpb@longest", CODING, 0.33),
    Statement("KBPB codes faster than BPBC (µs).", "bpbc > kbpb-rbf", CODING),
    Statement("KBPB stores more than BPBC (MB).", "kbpb-rbf > bpbc", STORAGE),
    Statement("RR+PQ needs most memory (MB).", "rr+pq > rr, bpbc, cbe, bpb, kbpb-rbf", STORAGE),
    Statement("BPB trains between BPBC and CBE (s).", "bpbc > bpb > cbe", TRAINING),
    Statement("BPB is near the floats (SVM).", "bpb > original", SVM),
    Statement("KBPB (RBF) is best (SVM).", "kbpb-rbf > kbpb-poly, bpb, cbe, pka, lsh", SVM),
    Statement("Methods differ less under an SVM.", "retrieval gap > SVM gap", judge=_gaps),
    Statement("Small groups make fewer pairwise errors.", "original > bpb", PAIRS, 0),
    Statement("Soft groups are level at D/8.", "bpb grouping=soft@8 > bpb@8", SOFT),
    Statement("Soft groups win at D bits.", "bpb grouping=soft@1 > bpb@1", SOFT, 0),
    Statement("Lambda is best around 1 (BPB).", LAM.format("bpb"), VARIED),
    Statement("Lambda is best around 1 (KBPB, RBF).", LAM.format("kbpb-rbf"), VARIED),
    Statement("From 1,000 basis samples on, precision is stable.", N, VARIED, 0.03),
)


def statements_table(sets: list[SetInfo]) -> Table:
    """All statements with the paper's figures (Flickr 1M and UCF101, Fisher vectors) and those of each set."""
    rows = []
    for said in STATEMENTS:
        sign = "=" if " = " in said.order else ">"
        order = f" {sign} ".join(", ".join(map(_name, level)) for level in _levels(said))
        rule = Cell(order if said.judge else f"{order} ({100 * said.slack:g} %)")
        theirs = Cell(listed(said, paper_figures(said)) or "in a plot only")
        rows.append([Cell(said.text), rule, theirs, *(Cell(check(said, one, sets)) for one in sets)])
    columns = [
        Column("the paper says"),
        Column("that is"),
        Column("figures", "Fisher vectors, D = 64,000 (SVM: 170,400)", paper=True),
    ]
    notes = [
        "Precision at 50, or what is named; figures are of the longest codes measured where no length is given.",
        "agrees: each figure before a > is at least as large as each after it, less the per cent in brackets, at every "
        "length measured; in part: at some of them. open: something was not measured.",
        f"no verdict: the set has fewer than {SMALL:,} vectors, or some figure is of one seed (but for cost).",
        *(f"The paper: {source}, {words}." for source, words in paper.DATA.items()),
    ]
    columns += [Column(one.title) for one in sets]
    return Table("statements", "The paper's statements", columns, rows, notes, prose=True)


def check(said: Statement, one: SetInfo, sets: Sequence[SetInfo] = ()) -> str:
    """A set's outcome for a statement in words, with figures of the longest codes."""
    verdicts = judge(said, one, sets)
    if not verdicts:
        return "not measured"
    figures = listed(said, verdicts[-1].figures)
    decided = [verdict for verdict in verdicts if verdict.outcome != OPEN] or verdicts
    outcomes = {verdict.outcome for verdict in decided}
    if is_small(one) or (outcomes != {OPEN} and said.measure.protocol != "cost" and min(v.seeds for v in decided) < 2):
        return f"no verdict: {'a small set' if is_small(one) else 'one seed'}. {figures}"
    if len(outcomes) == 1:
        return f"{outcomes.pop()}: {listed(said, decided[-1].figures)}"
    at = {o: ", ".join(f"D/{v.ratio}" for v in decided if v.outcome == o) for o in (AGREES, DIFFERS)}
    return f"in part: agrees at {at[AGREES]}, differs at {at[DIFFERS]}. {listed(said, decided[-1].figures)}"


def is_small(one: SetInfo) -> bool:
    """Whether a set is too small for verdicts."""
    return one.toy or one.n_vectors < SMALL


def judge(said: Statement, one: SetInfo, sets: Sequence[SetInfo] = ()) -> list[Verdict]:
    """Verdicts on a statement at the lengths measured, the shortest codes first; over the seeds that all have."""
    if said.judge is not None:
        return said.judge(one, sets)
    names = names_of(said)
    ratios = one.ratios(said.measure.protocol)
    fixed = any("@" in name for name in names)
    if "@shortest" in said.order and len(ratios) < 2:
        return []
    verdicts = []
    for ratio in [None] if fixed else ratios:
        found, seeds = _figures(said, one, names, ratio)
        if not found:
            continue
        levels = [[found[name] for name in level if name in found] for level in _levels(said)]
        whole = all(levels) and all(_of_this_length(said, one, level, found) for level in _levels(said))
        if len(found) > 1 and (whole or " = " in said.order):
            verdicts.append(_verdict(ratio, _holds(said, levels), found, seeds))
        else:
            verdicts.append(Verdict(ratio, OPEN, found, seeds))
    known = [verdict for verdict in verdicts if verdict.outcome != OPEN]
    return known or verdicts[-1:]


def _of_this_length(said: Statement, one: SetInfo, level: list[str], found: dict[str, float]) -> bool:
    """Whether figures of a level are of this length, if it has methods of any length: signs alone are no rivals."""
    of_any_length = {r["method"] for r in one.good(said.measure.protocol) if r["n_bits"] is not None} & set(level)
    return not of_any_length or bool(of_any_length & set(found))


def _holds(said: Statement, levels: list[list[float]]) -> bool:
    if " = " in said.order:
        values = [value for level in levels for value in level]  # whichever of them were measured
        return min(values) >= (1 - said.slack) * max(values)
    return all(min(upper) >= (1 - said.slack) * max(lower) for upper, lower in itertools.pairwise(levels))


def _figures(said: Statement, one: SetInfo, names: list[str], ratio: int | None) -> tuple[dict[str, float], int]:
    """Figures of the names at a length, over the seeds that all methods have that were measured there; their number."""
    protocol, word, scale = said.measure
    words = (word, str(one.main_k(protocol))) if word == "precision" else (word,)
    terms = {name: [_place(term, one.ratios(protocol), ratio) for term in _terms(name)] for name in names}
    seeds = [known for places in terms.values() for place in places if (known := one.seeds(*place, words, protocol))]
    common = set.intersection(*seeds) if seeds else None
    found = {}
    for name, places in terms.items():
        means = [one.mean(*place, words, protocol, common) for place in places]
        values = [mean.value for mean in means if mean is not None]
        if len(values) == len(places):
            found[name] = scale * (values[0] - sum(values[1:]))
    return found, len(common or ())


def paper_figures(said: Statement) -> dict[str, float]:
    """The paper's figures, as far as it prints them."""
    protocol, word, _ = said.measure
    ratios = {"": paper.RATIOS, "cost": paper.COST_RATIOS, "action": paper.ACTION_RATIOS}.get(protocol, (1,))
    found = {}
    for name in [] if said.judge else names_of(said):
        values = [paper.figure(protocol, word, *_place(term, ratios, min(ratios))) for term in _terms(name)]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            found[name] = known[0] - sum(known[1:])
    return found


def listed(said: Statement, figures: dict[str, float]) -> str:
    """Figures by name."""
    in_percent = said.judge in (_gaps, _drops)
    write = three_digits if said.measure.protocol in ("cost", "action") or in_percent else decimal
    return ", ".join(f"{_name(name)} {write(value)}" for name, value in figures.items())


def names_of(said: Statement) -> list[str]:
    """Names in a statement's order, as figures have them."""
    return [name for level in _levels(said) for name in level]


def _levels(said: Statement) -> list[list[str]]:
    return [level.split(", ") for level in said.order.replace(" = ", " > ").split(" > ")]


def _terms(name: str) -> list[str]:
    """Methods of a difference, each at the length that stands after the last."""
    methods, at, length = name.partition("@")
    return [method + at + length for method in methods.split(" - ")]


def _place(name: str, ratios: Sequence[int], ratio: int | None) -> tuple[str, int]:
    """Method and D / bits."""
    method, _, length = name.partition("@")
    named = {"shortest": max(ratios, default=1), "longest": min(ratios, default=1), "": ratio or 1}
    return method, named[length] if length in named else int(length)


def _name(name: str) -> str:
    method, _, length = name.partition("@")
    methods = " - ".join(map(method_name, method.split(" - ")))
    return methods + (f" ({'D/' * length.isdigit()}{length})" if length else "")
