"""Write the tables of README.md, docs/results.md and docs/paper.md from docs/results.json and benchmarks/results.

`python docs/make_results.py` writes the tables between their markers; with `--check` it writes nothing, and the exit
code is 1 if a page is not up to date. `docs/take_results.py` adds what was measured to the records.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import paper_tables
from paper_tables import SPLITS, short, splits_of, table

HERE = Path(__file__).parent
MEASURED = HERE.parent / "benchmarks" / "results"
DEFAULT = {
    "imagenette_vlad": "Imagenette photos, VLAD",
    "caltech_vlad": "Caltech-101 photos, VLAD",
    "imagenette_conv320": "Imagenette, maps of a small net",
    "caltech_conv320": "Caltech-101, maps of a small net",
    "ucf101": "UCF101 videos, net features",
    "worm": "worm neurons, gene counts",
    "imagenette_fv": "Imagenette photos, Fisher vectors",
    "caltech_fv": "Caltech-101 photos, Fisher vectors",
    "imagenette_conv1280": "Imagenette, larger maps",
    "caltech_conv1280": "Caltech-101, larger maps",
    "tiny_vlad": "Tiny-ImageNet photos, VLAD",
    "tiny_conv320": "Tiny-ImageNet, maps",
}
"""Sets on which `benchmarks.mixed` measures the default; the first six stand in the README."""
FEW = {"imagenette_vlad": "Imagenette photos, VLAD", "tiny_conv320": "Tiny-ImageNet, maps"}
"""Sets on which 500 bits are learnt from fewer rows."""
NEIGHBOURS = {"caltech_vlad": 15, "ucf101": 30, "worm": 30}
"""Sets on which numbers of neighbours are compared, and what the rule takes there."""
FIDELITY = {
    "imagenette_vlad": "Imagenette VLAD",
    "imagenette_fv": "Imagenette FV",
    "caltech_vlad": "Caltech-101 VLAD",
    "caltech_fv": "Caltech-101 FV",
    "ucf101": "UCF101",
    "worm": "worm neurons",
}
"""Sets on which `benchmarks.fidelity` measures codes for distances."""
BANKS = ("original", "joint", "joint asymmetric", "joint solver=random")
AT_50 = (*BANKS, "itq", "kmeans+itq", "rabitq", "bpbc", "cbe", "lsh", "bpb", "bpb-equal", "kbpb-rbf")
AT_10 = ("original", "joint", "joint solver=random", "itq", "lsh", "bpb")
SVM = ("original", "sign", "joint", "bpb", "kbpb-rbf", "cbe", "lsh")
COST = ("joint", "bpb", "bpbc", "cbe", "kbpb-rbf", "lsh")
UNRANKED = ("original", "joint asymmetric", "pca", "pq", "pka", "rr+pq", "rr")
"""Floats, float queries and short float vectors: not ranked among binary codes."""

Records = dict[str, Any]


def sets(records: Records) -> str:
    """Return the table of data sets."""
    rows = []
    for one in records["sets"].values():
        sizes = [f"{one[word]:,}" for word in ("N", "classes", "learnt_from", "D")]
        rows.append([one["title"], one["what"], *sizes, f"{one['bits'][0]:,}/{one['bits'][-1]:,}"])
    return table(["set", "what", "vectors", "classes", "learnt from", "D", "bits: D/64/D/8"], rows)


def precision(records: Records, methods: tuple[str, ...], column: int) -> str:
    """Return the precision of methods on all sets, at D/64 and D/8.

    Of each length the best binary codes of all methods, shown or not, are bold; means of few splits are not ranked.
    """
    found = records["retrieval"]

    def ranked(name: str, method: str, end: int) -> bool:
        lengths = found[name][method]
        return method not in UNRANKED and len(lengths) > 1 and splits_of(lengths[end]) >= SPLITS

    best = {
        (name, end): max(found[name][method][end][column] for method in found[name] if ranked(name, method, end))
        for name in found
        for end in (0, -1)
    }

    def figure(name: str, method: str, end: int) -> str:
        values = found[name][method][end]
        text = short(values[column]) + ("†" if 0 < splits_of(values) < SPLITS else "")
        return f"**{text}**" if ranked(name, method, end) and values[column] == best[name, end] else text

    def row(method: str) -> list[str]:
        ends = {name: (0, -1) if len(found[name][method]) > 1 else (0,) for name in found}
        return ["/".join(figure(name, method, end) for end in ends[name]) for name in found]

    rows = [[records["methods"][method][0], *row(method)] for method in methods]
    return table(["D/64 / D/8", *(one["title"] for one in records["sets"].values())], rows)


def svm(records: Records) -> str:
    """Return the accuracy of a linear SVM on codes."""
    rows = [[records["methods"][name][0], *(f"{value:.1f}" for value, _ in records["svm"][name])] for name in SVM]
    return table(["accuracy in %", "D/20", "D/15", "D/10", "D/8"], rows)


def cost(records: Records) -> str:
    """Return model size, training and coding time at D/16 and D/8."""
    rows = []
    for name in COST:
        sizes, seconds, coding = zip(*records["cost"][name], strict=True)
        megabytes = "/".join(f"{size / 1e6:.2f}" if size < 1e7 else f"{size / 1e6:,.0f}" for size in sizes)
        times = ["/".join(f"{value:,.0f}" for value in values) for values in (seconds, coding)]
        rows.append([records["methods"][name][0], megabytes, *times])
    return table(["D/16 / D/8", "model, MB", "training, s", "coding, µs"], rows)


def rows_of(name: str) -> list[Records]:
    """Return what `benchmarks.mixed` measured on a set."""
    path = MEASURED / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def means(rows: list[Records], distance: str = "hamming") -> list[float] | None:
    """Return mean P@10 and P@50 of rows; None if there are none."""
    return [fmean(values) for values in zip(*(row[distance] for row in rows), strict=True)] if rows else None


def pair(values: list[float] | None) -> str:
    """Write P@10 and P@50."""
    return "/".join(map(short, values)) if values else "-"


def measured(name: str, distance: str = "hamming") -> dict[int | str, list[float]]:
    """Return P@10 and P@50 of the default by bits, as means over seeds, of the floats ("floats"), and D ("D")."""
    found = json.loads((MEASURED / f"mixed_{name}.json").read_text(encoding="utf-8"))
    cells: dict[int | str, list[Records]] = {}
    for row in found["rows"]:
        if row["method"] in ("original", "mixed") and "params" not in row:
            is_float = row["method"] == "original"
            if distance in row:
                cells.setdefault("floats" if is_float else row["bits"], []).append(row)
    values = {key: means(rows, distance) or [] for key, rows in cells.items()}
    return {"D": [found["data"]["dimensions"]], **values}


def peer(records: Records, name: str, method: str, n_bits: int) -> str:
    """Return what another method finds on splits of the default, or on five others of the same size."""
    found = rows_of(f"mixed_{name}")
    rows = [row for row in found if row["method"] == method and row["bits"] == n_bits]
    if rows or records["sets"].get(name, {}).get("learnt_from") != found[0]["train"]:
        return pair(means(rows))
    return pair(records["retrieval"][name][method][0][:2])


def figures() -> str:
    """Return six figures of the default, at a bit for every 64 numbers."""
    rows = []
    for name, title in list(DEFAULT.items())[:6]:
        found = measured(name)
        D = int(found["D"][0])
        sizes = [f"{4 * D:,}", f"{-(-(D // 64) // 8)}"]
        rows.append([title, short(found["floats"][1]), f"**{short(found[D // 64][1])}**", *sizes])
    return table(["", "floats", "codes", "bytes: floats", "codes"], rows)


def default(records: Records) -> str:
    """Return what the default finds at several lengths, beside the joint bank and ITQ."""
    lengths: dict[str, Callable[[int], int]] = {"64 bits": lambda D: 64}
    lengths |= {f"D/{ratio}": lambda D, ratio=ratio: D // ratio for ratio in (64, 8)}  # type: ignore[misc]
    rows = []
    for name, title in DEFAULT.items():
        found = measured(name)
        D = int(found["D"][0])
        cells = [found.get("floats"), *(found.get(of(D)) for of in lengths.values())]
        cells.append(measured(name, "asymmetric").get(D // 64))
        peers = [peer(records, name, method, D // 64) for method in ("joint", "itq")]
        own = [row for row in rows_of(f"mixed_{name}") if row["method"] == "mixed" and "params" not in row]
        splits = str(len({row["seed"] for row in own}))
        rows.append([title, splits, *map(pair, cells), *peers])
    return table(["P@10/P@50", "splits", "floats", *lengths, "D/64, float queries", "joint, D/64", "ITQ, D/64"], rows)


def few() -> str:
    """Return what the default finds from fewer rows to learn from."""
    found = {(name, row["train"]): row for name in FEW for row in rows_of(f"few_{name}")}
    sizes = sorted({size for _, size in found})
    cells = [[title, *(pair(found.get((name, n), {}).get("hamming")) for n in sizes)] for name, title in FEW.items()]
    return table(["learnt from", *(f"{size:,}" for size in sizes)], cells)


def neighbours() -> str:
    """Return what the default finds at a bit for every 64 numbers with other neighbours on its graph, on one split."""
    rows = []
    for name, rule in NEIGHBOURS.items():
        wanted = {"method": "mixed", "seed": 0, "bits": int(measured(name)["D"][0]) // 64}
        found = [row for row in rows_of(f"mixed_{name}") if wanted.items() <= row.items()]
        cells = []
        for n in (15, 30, 60, 100):
            own = [row for row in found if row.get("params", {"n_neighbors": rule}) == {"n_neighbors": n}]
            cells.append(f"**{pair(means(own))}**" if n == rule else pair(means(own)))
        rows.append([DEFAULT[name], *cells])
    return table(["", "15", "30", "60", "100"], rows)


def labelled() -> str:
    """Return what labels are worth, on a random split and on the official one: P@10/P@50, accuracy of a linear SVM."""
    splits = {"labelled": "random split", "labelled_official": "official split"}
    records = [json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8")) for name in splits]
    rows: dict[str, list[str]] = {}
    for record in records:
        for method, values in record["found"].items():
            svm = f"{100 * values['SVM']:.1f} %"
            rows.setdefault(method, []).append(pair([values["P@10"], values["P@50"]]) + f", {svm}")
    heads = [f"{title}, {record['bits']:,} bits" for title, record in zip(splits.values(), records, strict=True)]
    return table(["UCF101", *heads], [[method, *cells] for method, cells in rows.items()])


def fidelity() -> str:
    """Return what codes for distances find of the floats' ten nearest, beside others of as many bytes."""
    found = json.loads((MEASURED / "fidelity.json").read_text(encoding="utf-8"))["sets"]
    kinds, peers = ("hamming", "asymmetric"), ("LSH", "ITQ", "PQ", "PCA+PQ", "OPQ", "RaBitQ")
    rows = []
    for name, title in FIDELITY.items():
        lengths = found.get(name, {}).get("recall of 10 among the first 10 and 100", {})
        for bits in sorted(lengths, key=int):
            cells = lengths[bits]
            best = {kind: max(cell[kind][0] for cell in cells.values() if kind in cell) for kind in kinds}

            def first(cell: dict[str, list[float]], best: dict[str, float] = best) -> str:
                return "/".join(
                    f"**{short(cell[kind][0])}**" if cell[kind][0] == best[kind] else short(cell[kind][0])
                    for kind in kinds
                    if kind in cell
                )

            own = cells["distances"]
            in_100 = "/".join(short(own[kind][1]) for kind in kinds)
            others = (first(cells[peer]) if peer in cells else "-" for peer in peers)
            rows.append([title, f"{int(bits):,}", first(own), in_100, *others])
            title = ""
    return table(["", "bits", "`distances`", "in 100", *peers], rows)


def nested() -> str:
    """Return what the first bits of codes for distances find, beside codes that were learnt with so many bits."""
    found = json.loads((MEASURED / "nested.json").read_text(encoding="utf-8"))["sets"]
    lengths, rows = (64, 128, 256), []

    def cell(shares: list[float]) -> str:
        return "/".join(map(short, shares))

    for name, title in FIDELITY.items():
        for bits, one in found.get(name, {}).items():
            firsts = [f"{cell(one[f'first {n}'])} ({cell(one[f'own {n}'])})" for n in lengths]
            whole = f"{cell(one['whole'])} ({cell(one['whole, learnt alone'])})"
            rows.append([title, f"{int(bits):,}", whole, *firsts])
            title = ""
    return table(["", "bits", "all bits", *(f"first {n}" for n in lengths)], rows)


def scifact() -> str:
    """Return what codes of fixed-dimensional encodings find of SciFact: nDCG@10, and MaxSim's ten among a hundred."""
    found = json.loads((MEASURED / "scifact.json").read_text(encoding="utf-8"))["found"]

    def cell(name: str, *keys: str) -> str:
        return "/".join(short(found[name][key][0]) for key in keys) if name in found else "-"

    first, rows = ("nDCG@10", "MaxSim's 10 in 100"), []
    names = {"floats, 40960 bytes, length 1": ("floats", 40960)}
    for size in (1280, 640, 160):
        for method in ("distances", "PQ", "PCA + PQ", "RaBitQ"):
            names[f"{method}, {size} bytes, length 1"] = f"`{method}`" if method == "distances" else method, size
    for name, (title, size) in names.items():
        ways = (
            [name] if name in found else [name.replace(" bytes", f" bytes, {way}") for way in ("asymmetric", "Hamming")]
        )
        if ways[0] in found:
            hamming = cell(ways[1], *first) if len(ways) > 1 else "-"
            rows.append([title, f"{size:,}", cell(ways[0], *first), hamming, cell(ways[0], "nDCG@10 re-ranked")])
    return table(["nDCG@10/in 100", "bytes", "asymmetric", "Hamming", "re-ranked"], rows)


def page(name: str, text: str, tables: dict[str, str]) -> str:
    """Return a page with each table between `<!-- NAME -->` and `<!-- /NAME -->` written again."""
    for title, lines in tables.items():
        start, end = f"<!-- {title} -->", f"<!-- /{title} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise SystemExit(f"docs/{name} must have the lines '{start}' and '{end}' once each.")
        text = re.sub(f"{start}.*{end}", lambda _, new=f"{start}\n{lines}\n{end}": new, text, flags=re.S)
    return text


def tables_of(records: Records) -> dict[str, dict[str, str]]:
    """Return the tables of all pages, by page and name."""
    tables = {"sets": sets(records), "svm": svm(records), "cost": cost(records)}
    tables["precision-50"] = precision(records, AT_50, 1)
    tables["precision-10"] = precision(records, AT_10, 0)
    tables |= {"default": default(records), "few": few(), "neighbours": neighbours(), "labelled": labelled()}
    others = {"../README.md": {"figures": figures()}, "distances.md": {"fidelity": fidelity(), "nested": nested()}}
    others["text.md"] = {"scifact": scifact()}
    return others | {"results.md": tables} | paper_tables.tables(records)


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description="Write the tables of docs/*.md from docs/results.json.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is out of date")
    check, code = parser.parse_args().check, 0
    records = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    for name, tables in tables_of(records).items():
        old = (HERE / name).read_text(encoding="utf-8")
        new = page(name, old, tables)
        if check and new != old:
            print(f"docs/{name} is out of date: run `python docs/make_results.py`.", file=sys.stderr)
            code = 1
        elif new != old:
            (HERE / name).write_text(new, encoding="utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
