"""The tables of docs/paper.md, from docs/results.json and the paper's own figures."""

from __future__ import annotations

from typing import Any

from projbank.paper import causes
from projbank.paper.report.causes import NAMES, OTHERS, WORDS
from projbank.paper.report.statements import AGREES, DIFFERS, STATEMENTS, Statement, judge, names_of, paper_figures
from projbank.paper.report.study import SetInfo

RATIOS = (64, 32, 16, 8)
SVM_RATIOS, COST_RATIOS = (20, 15, 10, 8), (16, 8)
EQUAL = ("lsh", "bpb", "bpb-equal")
SPLITS = {1: "¹", 2: "²", 3: "³"}
VARIED = ("lam", "n_basis")
"""Parameters of the protocol `sensitivity`."""
MARKS = {AGREES: "+", DIFFERS: "-"}
WHOLE = ("original", "lsh", "bpb", "bpb-equal")
Records = dict[str, Any]


def tables(records: Records) -> dict[str, dict[str, str]]:
    """Tables by page and name."""
    notes = {
        "equal": _equal(records),
        "whole": _whole(records),
        "statements": _statements(records),
        **(_causes(records) if "causes" in records else {}),
    }
    return {"paper.md": notes | {"groups": _kernel(records)}}


def short(value: float | None, digits: int = 3) -> str:
    """Write a number below 1 without the leading zero; what was not measured is a dash."""
    return "-" if value is None else f"{value:.{digits}f}".removeprefix("0")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, the first column aligned to the left."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("|" + " |".join(line) + " |" for line in lines)


def study(records: Records) -> list[SetInfo]:
    """The sets of the records as the report has them: means stand for records of one seed."""
    return [_set(records, name, about) for name, about in records["sets"].items()]


def _set(records: Records, name: str, about: Records) -> SetInfo:
    kind = name.rpartition("_")[2] if name.endswith(("fv", "vlad")) else ""
    one = SetInfo(name, about["N"], about["D"], about["title"], kind, about["classes"])

    def cell(method: str, n_bits: int | None, **values: Any) -> Records:
        return {"method": method, "n_bits": n_bits, "params": {}, "seed": 0, "protocol": {}} | values

    retrieval = one.records.setdefault("", [])
    for method, lengths in records["retrieval"][name].items():
        for n_bits, values in zip(about["bits"] if len(lengths) > 1 else [None], lengths, strict=True):
            if values[1] is not None:
                whole = records.get("whole", {}).get(name, {}).get(method, {}).get(f"{n_bits or 'all'}")
                deep = {"map": whole[0], "area": whole[1]} if whole else {}
                retrieval.append(cell(method, n_bits, precision={"10": values[0], "50": values[1]}, **deep))
    if name == "ucf101_unit":
        one.records["action"] = [
            cell(method, round(one.dimensions / ratio), accuracy=values[0])
            for method, lengths in records["svm"].items()
            for ratio, values in zip(SVM_RATIOS, lengths, strict=True)
        ]
    if name == "imagenette_fv":
        words = ("model_bytes", "training_seconds", "coding_seconds")
        one.records["cost"] = [
            cell(method, one.dimensions // ratio, **dict(zip(words, (size, training, coding / 1e6), strict=True)))
            for method, lengths in records["cost"].items()
            for ratio, (size, training, coding) in zip(COST_RATIOS, lengths, strict=True)
        ]
    whole_bit = "one bit of all dimensions"
    one.records["pair-error"] = [
        cell("original" if method == whole_bit else method, n_bits, pair_error=value)
        for method, lengths in records["pair_error"].get(name, {}).items()
        for n_bits, value, _ in lengths
    ]
    one.records["soft"] = [
        cell(method.replace(" soft", " grouping=soft").replace(" hard", ""), n_bits, precision={"50": value})
        for method, lengths in records["soft"].get(name, {}).items()
        for n_bits, value, _ in lengths
    ]
    one.records["sensitivity"] = [
        cell(method, int(n_bits), precision={"50": values[1]})
        for method, lengths in records.get("variants", {}).get(name, {}).items()
        for n_bits, values in lengths.items()
        if method.partition(" ")[2].partition("=")[0] in VARIED
    ]
    return one


def _statements(records: Records) -> str:
    """Statements that can be judged, the paper's figures, ours of the first set, and verdicts by set and length."""
    sets, rows = study(records), []
    for said in STATEMENTS:
        found = [judge(said, one, sets) for one in sets]
        verdicts = ["".join(MARKS.get(v.outcome, "") for v in verdicts) or "." for verdicts in found]
        if any(mark != "." for mark in verdicts):
            ours = next(verdicts[-1].figures for verdicts in found if verdicts and verdicts[-1].outcome in MARKS)
            rows.append([said.text, _figures(said, paper_figures(said)), _figures(said, ours), *_pairs(verdicts)])
    titles = [one.title.replace(" ", "&nbsp;").removesuffix("&nbsp;FV") for one in sets]
    return table(["the paper says", "paper", "here", *titles[::2][:2], *titles[4:]], rows)


def _pairs(verdicts: list[str]) -> list[str]:
    """Verdicts on Fisher vectors and VLAD of the same pictures in one cell."""
    return [*("/".join(pair) for pair in (verdicts[:2], verdicts[2:4])), *verdicts[4:]]


def _figures(said: Statement, figures: dict[str, float]) -> str:
    """Figures of the first names of a statement; a point for what is not known."""
    values = list(figures.values()) if said.judge else [figures.get(name) for name in names_of(said)]
    words = ["." if v is None else short(v) if abs(v) < 1 else f"{v:.3g}" if v < 1000 else f"{v:.0f}" for v in values]
    return "/".join(words[:4]) if any(word != "." for word in words[:4]) else "."


def _equal(records: Records) -> str:
    """P@50 of LSH, of BPB on k-means groups and on groups of equal size; the number of splits where it is not five."""
    rows, columns = [], {name: [_lengths(records, name, m) for m in EQUAL] for name in records["sets"]}
    tenth = any(records["sets"][name]["D"] // 10 in lengths for name, found in columns.items() for lengths in found)
    ratios = (*RATIOS[:-1], *([10] if tenth else []), RATIOS[-1])
    for name, about in records["sets"].items():
        found, cells = columns[name], []
        for ratio in ratios:
            values = [lengths.get(about["D"] // ratio, (None, 0)) for lengths in found]
            cells.append("/".join(short(value) + SPLITS.get(splits, "") for value, splits in values))
        rows.append(
            [about["title"].replace(" ", "&nbsp;"), short(records["retrieval"][name]["original"][0][1]), *cells]
        )
    return table(["LSH/k-means/equal", "floats", *(f"D/{ratio}" for ratio in ratios)], rows)


def _lengths(records: Records, name: str, method: str) -> dict[int, tuple[float | None, int]]:
    """P@50 of a method on a set and its number of splits, by bits."""
    lengths = records["retrieval"][name].get(method, [])
    found = {n: (v[1], v[2] if len(v) > 2 else 5) for n, v in zip(records["sets"][name]["bits"], lengths, strict=False)}
    others = records.get("variants", {}).get(name, {}).get(method, {})
    return found | {int(n_bits): (values[1], values[-1]) for n_bits, values in others.items()}


def _kernel(records: Records) -> str:
    """P@50 of linear and RBF banks on both kinds of groups, where the last was measured."""
    methods, rows = ("bpb", "bpb-equal", "kbpb-rbf", "kbpb-rbf-equal"), []
    for name, about in records["sets"].items():
        found = records["retrieval"][name]
        for place, ratio in enumerate(RATIOS):
            if "kbpb-rbf-equal" in found and found["kbpb-rbf-equal"][place][1] is not None:
                title = f"{about['title']}, D/{ratio}".replace(" ", "&nbsp;")
                values = [found[method][place][1] for method in methods]
                rows.append([title, short(found["original"][0][1]), *map(short, values)])
    return table(["P@50", "floats", "BPB", "equal", "KBPB", "equal"], rows)


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
            title = f"{about['title']}, D/{round(about['D'] / int(n_bits))}".replace(" ", "&nbsp;")
            rows.append([title, *("/".join(short(v) for v in value[:2]) for value in values)])
    return table(["MAP/area", "floats", "LSH", "k-means", "equal"], rows)


def _causes(records: Records) -> dict[str, str]:
    """Three tables of the sets that were measured: groups by weights, settings, other bits and labels."""
    found = records.get("causes", {})
    columns = []
    for name, one in found.items():
        lengths = [length for length in one if length.isdigit()]
        columns += [(name, n_bits, one.get("all", {}) | one[n_bits]) for n_bits in lengths]
    words = "{}, {:,} bits, N = {:,}"
    texts = [words.format(records["sets"][name]["title"], int(n), c["training"]) for name, n, c in columns]
    titles = [text.replace(" ", "&nbsp;") for text in texts]

    def values(words: str) -> list[str]:
        return [short(cells[words][0]) if words in cells else "-" for _, _, cells in columns]

    def by_weights(groups: str) -> list[str]:
        found = [values(f"bpb grouping={groups} weights={weights}") for weights in causes.WEIGHTS]
        return ["/".join(cells) for cells in zip(*found, strict=True)]

    groups = [[NAMES[name], *by_weights(name)] for name in causes.GROUPS]
    settings = [["as the paper has it", *values("bpb grouping=kmeans weights=learnt")]]
    varied = sorted(
        {words for _, _, cells in columns for words in cells if words.startswith("bpb ") and " " not in words[4:]}
    )
    for words in varied:
        word, _, value = words.removeprefix("bpb ").partition("=")
        title = WORDS[word].format(float(value)) if word in WORDS else "thresholds at the median"
        settings.append([title, *values(words)])
    others = [[title, *values(words)] for words, title in OTHERS.items()]
    return {
        "causes-groups": table(["Gaussian/ones/learnt", *titles], groups),
        "causes-settings": table(["changed", *titles], settings),
        "causes-others": table(["bits", *titles], others),
    }
