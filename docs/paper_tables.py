"""The tables of docs/paper.md, from docs/results.json and the paper's own figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from projbank.paper import causes
from projbank.paper.report.causes import NAMES, OTHERS, WORDS
from projbank.paper.report.statements import (
    AGREES,
    DIFFERS,
    STATEMENTS,
    Statement,
    Verdict,
    judge,
    names_of,
    paper_figures,
)
from projbank.paper.report.study import SetInfo

RATIOS, TUNED_RATIOS = (64, 32, 16, 8), (64, 16, 8)
SVM_RATIOS, COST_RATIOS = (20, 15, 10, 8), (16, 8)
EQUAL = ("lsh", "bpb", "bpb-equal")
SPLITS, RAISED = 5, str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Splits of a mean where nothing else is said, and how another number stands beside it."""
VARIED = ("lam", "n_basis")
"""Parameters of the protocol `sensitivity`."""
MARKS = {AGREES: "+", DIFFERS: "-"}
WHOLE = ("original", "lsh", "bpb", "bpb-equal")
PIPELINES = {
    "photos_dense": "dense SIFT",
    "photos_points": "SIFT at interest points",
    "photos_plain": "dense SIFT, no power normalisation",
}
"""Sets of the same pictures that are described in other ways."""
SHARES = {2: "N/2", 4: "N/4"}
"""Names of the smaller numbers of training vectors in the tables of causes."""
PIPELINE_METHODS = ("lsh", "randst+bpb", "bpb", "bpb-equal")
NAMED = {"lam": "lambda", "sigma_factor": "sigma factor", "n_basis": "n", "sigma": "sigma", "n_landmarks": "landmarks"}
READ, READ_SIZE = (("imagenette_vlad", 256), ("caltech_vlad", 256), ("imagenette_vlad", 64)), "N=1500"
"""Sets and D / bits where readings of KBPB are compared, and how many vectors they learn from."""
HEADED = ("bpb", "kbpb-rbf", "bpb-equal", "kbpb-rbf-equal")
HEADS = Path(__file__).parents[1] / "benchmarks" / "results" / "kernel_head.json"
Records = dict[str, Any]


def tables(records: Records) -> dict[str, dict[str, str]]:
    """Tables by page and name."""
    measured = {
        "equal": _equal(records),
        "whole": _whole(records),
        "pipelines": _pipelines(records),
        "tuned": _tuned(records),
        "action": _action(records),
        "statements": _statements(records),
        **_causes(records),
        "readings": _readings(records),
        "heads": _heads(records),
    }
    return {"paper.md": {name: text for name, text in measured.items() if text.count("\n") > 1}}


def short(value: float | None, digits: int = 3) -> str:
    """Write a number below 1 without the leading zero; what was not measured is a dash."""
    return "-" if value is None else f"{value:.{digits}f}".removeprefix("0")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, the first column aligned to the left."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("|" + " |".join(line) + " |" for line in lines)


def study(records: Records) -> list[SetInfo]:
    """The sets of the records as the report has them: a mean over splits stands for as many equal records."""
    return [_set(records, name, about) for name, about in records["sets"].items()]


def _set(records: Records, name: str, about: Records) -> SetInfo:
    kind = name.rpartition("_")[2] if name.endswith(("fv", "vlad")) else ""
    one = SetInfo(name, about["N"], about["D"], about["title"], kind, about["classes"])

    def cells(method: str, n_bits: int | None, splits: int, **values: Any) -> list[Records]:
        same = {"method": method, "n_bits": n_bits, "params": {}, "protocol": {}} | values
        return [same | {"seed": seed} for seed in range(splits)]

    retrieval = one.records.setdefault("", [])
    for method, lengths in records["retrieval"][name].items():
        for n_bits, values in zip(about["bits"] if len(lengths) > 1 else [None], lengths, strict=True):
            if values[1] is not None:
                retrieval += cells(method, n_bits, splits_of(values), precision={"10": values[0], "50": values[1]})
    for method, ranked in records.get("whole", {}).get(name, {}).items():
        for bits, (average, area, splits) in ranked.items():
            n_bits = None if bits == "all" else int(bits)
            if n_bits is None or n_bits in about["bits"]:
                retrieval += cells(method, n_bits, splits, map=average, area=area, precision={})
    if name == "ucf101_unit":
        one.records["action"] = [
            record
            for method, lengths in records["svm"].items()
            for ratio, (accuracy, splits) in zip(SVM_RATIOS, lengths, strict=True)
            for record in cells(method, round(one.dimensions / ratio), splits, accuracy=accuracy)
        ]
    if name == "imagenette_fv":
        words = ("model_bytes", "training_seconds", "coding_seconds")
        one.records["cost"] = [
            record
            for method, lengths in records["cost"].items()
            for ratio, (size, training, coding) in zip(COST_RATIOS, lengths, strict=True)
            for record in cells(
                method, one.dimensions // ratio, 1, **dict(zip(words, (size, training, coding / 1e6), strict=True))
            )
        ]
    one.records["tuned"] = [
        record
        for words, lengths in records.get("tuned", {}).get(name, {}).items()
        for n_bits, values in lengths.items()
        for record in cells(
            words.partition(" N=")[0],
            None if n_bits == "all" else int(n_bits),
            values[1],
            precision={"50": values[0]},
        )
    ]
    if one.records["tuned"] and "original" not in one.methods("tuned"):
        one.records["tuned"] += [r for r in retrieval if r["method"] == "original"]
    whole_bit = "one bit of all dimensions"
    one.records["pair-error"] = [
        record
        for method, lengths in records["pair_error"].get(name, {}).items()
        for n_bits, value, splits in lengths
        for record in cells("original" if method == whole_bit else method, n_bits, splits, pair_error=value)
    ]
    one.records["soft"] = [
        record
        for method, lengths in records["soft"].get(name, {}).items()
        for n_bits, value, splits in lengths
        for record in cells(
            method.replace(" soft", " grouping=soft").replace(" hard", ""), n_bits, splits, precision={"50": value}
        )
    ]
    one.records["sensitivity"] = [
        record
        for method, lengths in records.get("variants", {}).get(name, {}).items()
        for n_bits, values in lengths.items()
        if method.partition(" ")[2].partition("=")[0] in VARIED
        for record in cells(method.partition(" N=")[0], int(n_bits), values[-1], precision={"50": values[1]})
    ]
    return one


def _statements(records: Records) -> str:
    """Statements that can be judged, the paper's figures, ours of the first set, and verdicts by set and length."""
    sets, rows = study(records), []
    for said in STATEMENTS:
        found = [judge(said, one, sets) for one in sets]
        verdicts = [_marks(verdicts) for verdicts in found]
        if any(mark != "." for mark in verdicts):
            ours = next(verdicts[-1].figures for verdicts in found if verdicts and verdicts[-1].outcome in MARKS)
            rows.append([said.text, _figures(said, paper_figures(said)), _figures(said, ours), *_pairs(verdicts)])
    titles = [one.title.replace(" ", "&nbsp;").removesuffix("&nbsp;FV") for one in sets]
    return table(["the paper says", "paper", "here", *titles[::2][:2], *titles[4:]], rows)


def _marks(verdicts: list[Verdict]) -> str:
    """A mark for each length, and the least number of splits behind them where it is not five."""
    known = [v for v in verdicts if v.outcome in MARKS]
    return "".join(MARKS[v.outcome] for v in known) + _raised(min(v.seeds for v in known)) if known else "."


def _raised(splits: int) -> str:
    """The number of splits behind a mean, where it is not five."""
    return "" if splits in (0, SPLITS) else str(splits).translate(RAISED)


def splits_of(values: list[Any]) -> int:
    """Splits behind P@10 and P@50 of the main tables."""
    return values[2] if len(values) > 2 else SPLITS


def _pairs(verdicts: list[str]) -> list[str]:
    """Verdicts on Fisher vectors and VLAD of the same pictures in one cell."""
    return [*("/".join(pair) for pair in (verdicts[:2], verdicts[2:4])), *verdicts[4:]]


def _figures(said: Statement, figures: dict[str, float]) -> str:
    """Figures of the first names of a statement; a point for what is not known."""
    values = list(figures.values()) if said.judge else [figures.get(name) for name in names_of(said)]
    words = ["." if v is None else short(v) if abs(v) < 1 else f"{v:.3g}" if v < 1000 else f"{v:.0f}" for v in values]
    return "/".join(words[:4]) if any(word != "." for word in words[:4]) else "."


def _equal(records: Records) -> str:
    """P@50 of LSH, of BPB on k-means groups and on groups of equal size; the number of splits where it is not five.

    What was learnt from another number of vectors than the sets' own has rows of its own.
    """
    columns = {}
    for name in records["sets"]:
        for size in ("", *_other_sizes(records, name)):
            columns[name, size] = [_lengths(records, name, m, "" if m == "lsh" else size) for m in EQUAL]
    tenth = any(records["sets"][name]["D"] // 10 in found for (name, _), each in columns.items() for found in each)
    rows, ratios = [], (*RATIOS[:-1], *([10] if tenth else []), RATIOS[-1])
    for (name, size), found in columns.items():
        about, cells = records["sets"][name], []
        for ratio in ratios:
            values = [lengths.get(about["D"] // ratio, (None, 0)) for lengths in found]
            words = [short(value) + _raised(splits) for value, splits in values]
            cells.append("/".join(words) if {*words[bool(size) :]} != {"-"} else "-")
        if {*cells} == {"-"}:
            continue
        title = _fixed(about["title"] + (", " + size.replace("=", " = ") if size else ""))
        rows.append([title, short(records["retrieval"][name]["original"][0][1]), *cells])
    return table(["LSH/k-means/equal", "floats", *(f"D/{ratio}" for ratio in ratios)], rows)


def _other_sizes(records: Records, name: str) -> list[str]:
    """Numbers of training vectors, as "N=1000", from which equal groups were learnt beside the set's own."""
    return sorted(
        words.split()[1] for words in records.get("variants", {}).get(name, {}) if words.startswith("bpb-equal N=")
    )


def _lengths(records: Records, name: str, method: str, size: str = "") -> dict[int, tuple[float | None, int]]:
    """P@50 of a method on a set and its number of splits, by bits."""
    lengths = [] if size else records["retrieval"][name].get(method, [])
    found = {n: (v[1], splits_of(v)) for n, v in zip(records["sets"][name]["bits"], lengths, strict=False)}
    others = records.get("variants", {}).get(name, {}).get(f"{method} {size}".strip(), {})
    return found | {int(n_bits): (values[1], values[-1]) for n_bits, values in others.items()}


def _fixed(text: str) -> str:
    """Text that is not broken into lines."""
    return text.replace(" ", "&nbsp;")


def _pipelines(records: Records) -> str:
    """P@50 of the same pictures, described in other ways, at all lengths measured."""
    found = {name: records["variants"][name] for name in PIPELINES if name in records.get("variants", {})}
    lengths = sorted({n for one in found.values() for n in one.get("lsh", {})}, key=int)
    rows = [
        [title, short(found[name]["original"]["all"][1])]
        + ["/".join(short(found[name].get(m, {}).get(n, (0, None))[1]) for m in PIPELINE_METHODS) for n in lengths]
        for name, title in PIPELINES.items()
        if name in found
    ]
    return table(["LSH/random/k-means/equal", "floats", *(f"{int(n):,} bits" for n in lengths)], rows)


def _tuned(records: Records) -> str:
    """P@50 with chosen parameters beside that of the defaults, and what was chosen."""
    rows = []
    for name, found in records.get("tuned", {}).items():
        for words, lengths in found.items():
            chosen = next(values[2] for values in lengths.values())
            if not chosen[0]:  # it has no parameters
                continue
            method, _, size = words.partition(" ")
            given = records.get("variants", {}).get(name, {}).get(f"{method} lam=1.0 {size}".strip(), {})
            same = {int(bits): (values[1], values[-1]) for bits, values in given.items()}
            plain = _lengths(records, name, method, size) | same
            cells = []
            for ratio in TUNED_RATIOS:
                values = lengths.get(f"{records['sets'][name]['D'] // ratio}")
                default = plain.get(records["sets"][name]["D"] // ratio, (None, 0))[0]
                default = values[3] if values and len(values) > 3 else default  # of the same splits
                cells.append(f"{short(default)}/{short(values[0])}{_raised(values[1])}" if values else "-")
            picked = "; ".join(
                f"{NAMED.get(word, word)} " + ", ".join(f"{v:g}" for v in sorted({one[word] for one in chosen}))
                for word in chosen[0]
            )
            title = f"{records['sets'][name]['title']}, {records['methods'].get(method, [method])[0]}"
            rows.append([_fixed(title), *cells, _fixed(picked)])
    return table(["default/chosen", *(f"D/{ratio}" for ratio in TUNED_RATIOS), "chosen"], rows)


def _action(records: Records) -> str:
    """Accuracy of a linear SVM on codes of banks with default parameters and with the paper's, n = 500, lambda = 8."""
    name = "ucf101_unit"
    found = {w: lengths for w, lengths in records.get("action", {}).get(name, {}).items() if " " in w}
    bits = {ratio: f"{records['sets'][name]['D'] // ratio}" for ratio in SVM_RATIOS}
    ratios = [ratio for ratio in SVM_RATIOS if any(bits[ratio] in lengths for lengths in found.values())]
    rows = []
    for words, lengths in found.items():
        method = words.split()[0]
        plain = dict(zip(SVM_RATIOS, records["svm"].get(method, []), strict=False))
        pairs = [(plain.get(ratio), lengths.get(bits[ratio])) for ratio in ratios]
        cells = ["/".join("-" if one is None else f"{one[0]:.1f}" for one in pair) for pair in pairs]
        rows.append([_fixed(records["methods"][method][0]), *cells])
    return table(["default/paper's", *(f"D/{ratio}" for ratio in ratios)], rows)


def _readings(records: Records) -> str:
    """P@10/P@50 of banks and readings of KBPB that learnt from as many vectors as the paper's basis has."""
    found: dict[str, list[str]] = {}
    for place, (name, ratio) in enumerate(READ):
        bits = f"{records['sets'][name]['D'] // ratio}"
        for words, lengths in records.get("variants", {}).get(name, {}).items():
            if words.endswith(f" {READ_SIZE}") and bits in lengths:
                cells = found.setdefault(words.removesuffix(f" {READ_SIZE}"), ["-"] * len(READ))
                cells[place] = "/".join(short(value) for value in lengths[bits][:2])
    rows = [[_fixed(_reading(records, words)), *cells] for words, cells in sorted(found.items())]
    titles = [_fixed(f"{records['sets'][name]['title']}, D/{ratio}") for name, ratio in READ]
    return table(["P@10/P@50", *titles], rows)


def _reading(records: Records, words: str) -> str:
    """A variant of a bank in words."""
    method, *params = words.split()
    named = [f"{NAMED.get(word, word)} {value}" for word, _, value in (one.partition("=") for one in params)]
    return ", ".join([records["methods"][method][0], *named])


def _heads(records: Records) -> str:
    """P@10/P@50 of banks' own bits, and of the head that learnt from their sums."""
    rows = []
    for name, one in json.loads(HEADS.read_text(encoding="utf-8"))["sets"].items():
        found = {method: "/".join(map(short, values)) for method, values in one["precision"].items()}
        for lam in sorted({method.partition(" lam=")[2] for method in found}):
            after, title = "", f"{records['sets'][name]['title']}, {one['bits']} bits"
            if lam:
                after, title = f" lam={lam}", f"{title}, lambda {lam}"
            pairs = [(found.get(m + after), found.get(f"head on {m}{after}")) for m in HEADED]
            cells = ["→".join(pair) if all(pair) else "-" for pair in pairs]
            rows.append([_fixed(title), "-" if lam else found["head"], *cells])
    return table(["own bits→head on them", "head alone", "BPB", "KBPB", "BPB, equal", "KBPB, equal"], rows)


def _whole(records: Records) -> str:
    """Mean average precision and area at the shortest and longest codes for which all of the methods were measured."""
    rows = []
    for name, found in records.get("whole", {}).items():
        if name not in records["sets"] or not set(WHOLE) <= set(found):
            continue
        lengths = sorted(set.intersection(*(set(found[m]) for m in WHOLE[1:])), key=int)
        for n_bits in dict.fromkeys([lengths[0], lengths[-1]]):
            values = [found[m]["all" if m == "original" else n_bits] for m in WHOLE]
            about = records["sets"][name]
            title = _fixed(f"{about['title']}, D/{round(about['D'] / int(n_bits))}")
            rows.append([title, *("/".join(map(short, v[:2])) + _raised(v[2]) for v in values)])
    return table(["MAP/area", "floats", "LSH", "k-means", "equal"], rows)


def _shares(cells: Records) -> Records:
    """Cells of fewer training vectors, named by their share of the set's own number."""
    short_of = {
        words: round(cells["training"] / int(words[12:])) for words in cells if words.startswith("bpb n_train=")
    }
    return {f"bpb n_train={SHARES[short_of[w]]}" if w in short_of else w: value for w, value in cells.items()}


def _causes(records: Records) -> dict[str, str]:
    """Three tables of the sets that were measured: groups by weights, settings, other bits and labels."""
    found = records.get("causes", {})
    columns = []
    for name in [name for name in records["sets"] if name in found]:
        one = found[name]
        lengths = [length for length in one if length.isdigit()]
        columns += [(name, n_bits, _shares(one.get("all", {}) | one[n_bits])) for n_bits in lengths]
    words = "{}, {:,} bits, N = {:,}"
    texts = [words.format(records["sets"][name]["title"], int(n), c["training"]) for name, n, c in columns]
    titles = [text.replace(" ", "&nbsp;") for text in texts]

    def values(words: str) -> list[str]:
        return [short(cells[words][0]) if words in cells else "-" for _, _, cells in columns]

    def by_weights(groups: str) -> list[str]:
        found = [values(f"bpb grouping={groups} weights={weights}") for weights in causes.WEIGHTS]
        return ["/".join(cells) for cells in zip(*found, strict=True)]

    groups = [[NAMES[name], *by_weights(name)] for name in causes.GROUPS]
    settings = [["nothing", *values("bpb grouping=kmeans weights=learnt")]]
    varied = sorted(
        {words for _, _, cells in columns for words in cells if words.startswith("bpb ") and " " not in words[4:]}
    )
    for words in varied:
        word, _, value = words.removeprefix("bpb ").partition("=")
        title = WORDS[word].format(float(value)) if word in WORDS and value not in SHARES.values() else value
        settings.append(["median thresholds" if word == "threshold" else title, *values(words)])
    others = [[title, *values(words)] for words, title in OTHERS.items()]
    return {
        "causes-groups": table(["Gaussian/ones/learnt", *titles], groups),
        "causes-settings": table(["changed", *titles], settings),
        "causes-others": table(["bits", *titles], others),
    }
