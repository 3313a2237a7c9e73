"""What the paper says, and whether it holds on a data set: every verdict comes with the figures it rests on."""

from __future__ import annotations

from projbank.evaluate.results import Record
from projbank.paper.report.content import Verdict, decimal
from projbank.paper.report.study import REAL_METHODS, SetInfo, mean_of, method_name

AGREES, DIFFERS, OPEN = "agrees", "differs", "open"
CLOSE = 0.005
"""Differences in precision below this count as level: about the spread between seeds."""
BASELINES = ("sign", "alpha0", "lsh", "sph", "bpbc", "cbe")
SIMPLE_BANKS = ("kmeans+itq", "randst+bpb")


def retrieval_verdicts(one: SetInfo, k: int) -> list[Verdict]:
    """The paper's statements about its retrieval tables, at D/8 or the longest codes that were measured."""
    ratios = one.ratios()
    if not ratios:
        return []
    ratio = min(ratios)
    found = _over_same_splits(one, ratio, k, "bpb")
    kernels = _over_same_splits(one, ratio, k, "bpb", "kbpb-rbf", "kbpb-poly")  # slow: often on fewer splits
    quantised = _over_same_splits(one, ratio, k, "pq", "rr+pq")
    return [
        _close_to_floats(found, ratio, k),
        _bpb_leads(found, ratio),
        _below_bpb(found),
        _kernels_help(kernels),
        _above_floats(kernels),
        _strongest_baseline(found),
        _weakest(found),
        _rotation_helps_pq(quantised),
        _shorter_codes(one, k),
    ]


def _over_same_splits(one: SetInfo, ratio: int, k: int, *methods: str) -> dict[str, float]:
    """Precision of every method that was measured on all the splits that the given methods share."""
    measured = [seeds for method in methods if (seeds := one.seeds(method, ratio))]
    common = set.intersection(*measured) if measured else set()
    means = {method: one.precision(method, ratio, k, seeds=common or None) for method in one.methods()}
    return {method: mean.value for method, mean in means.items() if mean is not None}


def _compare(statement: str, needed: tuple[str, ...], found: dict[str, float], holds: bool, evidence: str) -> Verdict:
    missing = [method_name(name) for name in needed if name not in found]
    if missing:
        return Verdict(statement, OPEN, f"not measured: {', '.join(missing)}.")
    return Verdict(statement, AGREES if holds else DIFFERS, evidence)


def _list(found: dict[str, float], names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"{method_name(name)} {decimal(found[name])}" for name in names if name in found)


def _close_to_floats(found: dict[str, float], ratio: int, k: int) -> Verdict:
    gap = found.get("bpb", 0) - found.get("original", 0)
    return _compare(
        f"BPB keeps the precision of the uncompressed vectors (D/{ratio}, precision at {k}).",
        ("bpb", "original"),
        found,
        gap >= -CLOSE,
        f"{decimal(abs(gap))} {'above' if gap >= 0 else 'below'} the floats ({_list(found, ('bpb', 'original'))}).",
    )


def _bpb_leads(found: dict[str, float], ratio: int) -> Verdict:
    others = [name for name in BASELINES if name in found]
    better = [name for name in others if found[name] > found.get("bpb", 0) + CLOSE]
    evidence = (
        f"better than BPB ({decimal(found.get('bpb', 0))}) here: {_list(found, better)}."
        if better
        else (f"none of {', '.join(map(method_name, others))} is better than BPB ({decimal(found.get('bpb', 0))}).")
    )
    statement = f"BPB is level with CBE and better than every other binary method compared with (D/{ratio})."
    return _compare(statement, ("bpb", "cbe", "lsh"), found, not better, evidence)


def _below_bpb(found: dict[str, float]) -> Verdict:
    holds = all(found.get(name, 0) < found.get("bpb", 0) for name in SIMPLE_BANKS)
    statement = "ITQ in each k-means group and BPB on random groups are both worse than BPB."
    return _compare(statement, ("bpb", *SIMPLE_BANKS), found, holds, _list(found, ("bpb", *SIMPLE_BANKS)) + ".")


def _kernels_help(found: dict[str, float]) -> Verdict:
    names = ("kbpb-rbf", "kbpb-poly", "bpb")
    values = [found.get(name, 0) for name in names]
    return _compare(
        "Kernels help: the RBF kernel is best, the polynomial one next, BPB last.",
        names,
        found,
        values[0] >= values[1] >= values[2],
        _list(found, names) + ".",
    )


def _above_floats(found: dict[str, float]) -> Verdict:
    gap = found.get("kbpb-rbf", 0) - found.get("original", 0)
    evidence = _list(found, ("kbpb-rbf", "original")) + "."
    statement = "At the longest codes KBPB with the RBF kernel is above the uncompressed vectors."
    return _compare(statement, ("kbpb-rbf", "original"), found, gap > 0, evidence)


def _strongest_baseline(found: dict[str, float]) -> Verdict:
    others = [name for name in BASELINES if name in found]
    best = max(others, key=lambda name: found[name]) if others else ""
    statement = "CBE is the strongest of the earlier binary methods."
    return _compare(
        statement, ("cbe", "lsh", "bpbc"), found, best == "cbe", f"the order here: {_ranked(found, others)}."
    )


def _weakest(found: dict[str, float]) -> Verdict:
    others = [name for name in (*BASELINES, *SIMPLE_BANKS, "bpb") if name in found]
    worst = min(others, key=lambda name: found[name]) if others else ""
    evidence = f"the weakest here is {method_name(worst)} ({decimal(found.get(worst, 0))}); {_list(found, ('sign',))}."
    return _compare(
        "Taking signs of the vector itself is the worst way to make bits.",
        ("sign", "lsh", "sph"),
        found,
        worst == "sign",
        evidence,
    )


def _rotation_helps_pq(found: dict[str, float]) -> Verdict:
    holds = found.get("rr+pq", 0) > found.get("pq", 0)
    statement = "A random rotation before product quantisation helps."
    return _compare(statement, ("pq", "rr+pq"), found, holds, _list(found, ("rr+pq", "pq")) + ".")


def _shorter_codes(one: SetInfo, k: int) -> Verdict:
    statement = "From D/8 to D/16 bits BPB loses at most .02, less than LSH does."
    drops = {}
    seeds = one.seeds("bpb", 8) & one.seeds("bpb", 16) or None
    for name in ("bpb", "lsh"):
        long, short = one.precision(name, 8, k, seeds=seeds), one.precision(name, 16, k, seeds=seeds)
        if long is None or short is None:
            return Verdict(statement, OPEN, f"{method_name(name)} was not measured at both lengths.")
        drops[name] = long.value - short.value
    holds = drops["bpb"] <= 0.02 and drops["bpb"] < drops["lsh"]
    evidence = "; ".join(
        f"{method_name(name)} {'loses' if drop >= 0 else 'gains'} {decimal(abs(drop))}" for name, drop in drops.items()
    )
    return Verdict(statement, AGREES if holds else DIFFERS, evidence + ".")


def joint_sentence(one: SetInfo, k: int) -> str:
    """Where the bank learnt together stands, which the paper does not have."""
    parts = []
    for ratio in one.ratios():
        seeds = one.seeds("joint", ratio)
        joint, floats = (one.precision(name, ratio, k, seeds=seeds) for name in ("joint", "original"))
        if not seeds or joint is None:
            continue
        others = [
            (mean.value - own.value, name, mean, own)
            for name in one.methods()
            if name not in REAL_METHODS
            and (name.split()[0] != "joint" or name == "joint solver=random")  # not other forms of itself
            and (common := seeds & one.seeds(name, ratio))  # none for a method whose length can't be chosen
            and (mean := one.precision(name, ratio, k, seeds=common)) is not None
            and (own := one.precision("joint", ratio, k, seeds=common)) is not None
        ]
        text = f"D/{ratio}: {decimal(joint.value)}"
        if others:
            _, name, mean, own = max(others, key=lambda other: other[0])
            fewer = f" over {mean.n} of {len(seeds)} seeds, where the joint bank has {decimal(own.value)}"
            note = "" if mean.n == len(seeds) else fewer
            text += f" (best other binary method: {method_name(name)}, {decimal(mean.value)}{note})"
        parts.append(text + (f", floats {decimal(floats.value)}" if floats and ratio == min(one.ratios()) else ""))
    return f"The bank that is learnt together, not in the paper: {'; '.join(parts)}." if parts else ""


def cost_verdicts(one: SetInfo) -> list[Verdict]:
    """The paper's statements about cost."""
    ratios = one.ratios("cost")
    if not ratios:
        return []
    last, first = min(ratios), max(ratios)
    at_last = {m: 1e3 * s for m in one.methods("cost") if (s := one.cost(m, last, "coding_seconds")) is not None}
    rivals = {m: ms for m, ms in at_last.items() if m not in ("joint",)}
    verdicts = [
        _compare(
            f"BPB codes faster than all others (D/{last}).",
            ("bpb", "cbe", "bpbc"),
            at_last,
            bool(rivals) and min(rivals, key=lambda m: rivals[m]) == "bpb",
            "ms per vector: " + ", ".join(f"{method_name(m)} {ms:.3g}" for m, ms in at_last.items()) + ".",
        )
    ]
    short = one.cost("bpb", first, "coding_seconds")
    if short is not None and "bpb" in at_last:
        verdicts.append(
            Verdict(
                "BPB's coding time does not depend on the number of bits.",
                AGREES if at_last["bpb"] < 1.5 * (1e3 * short) else DIFFERS,
                f"{1e3 * short:.3g} ms at D/{first}, {at_last['bpb']:.3g} ms at D/{last}.",
            )
        )
    at_last_training = {m: s for m in one.methods("cost") if (s := one.cost(m, last, "training_seconds")) is not None}
    verdicts.append(
        _compare(
            "Training BPB takes somewhat longer than CBE and less than BPBC.",
            ("bpb", "cbe", "bpbc"),
            at_last_training,
            at_last_training.get("cbe", 0) <= at_last_training.get("bpb", 0) <= at_last_training.get("bpbc", 0),
            "s: " + ", ".join(f"{method_name(m)} {s:.3g}" for m, s in at_last_training.items()) + ".",
        )
    )
    return verdicts


def action_verdicts(one: SetInfo) -> list[Verdict]:
    """The paper's statements about recognition."""
    ratios = one.ratios("action")
    ratio = 10 if 10 in ratios else min(ratios, default=0)
    found = {}
    for method in one.methods("action"):
        mean = one.accuracy(method, ratio)
        if mean is not None:
            found[method] = mean.value
    text = {m: f"{method_name(m)} {value:.1f}" for m, value in found.items()}
    gap = found.get("bpb", 0) - found.get("original", 0)
    others = [m for m in found if m not in ("original", "joint", "kbpb-rbf")]
    best = found.get("kbpb-rbf", 0)
    better = [text[m] for m in others if round(found[m], 1) > round(best, 1)]
    return [
        _compare(
            f"A linear SVM on BPB codes is within half a point of one on the floats (D/{ratio}).",
            ("bpb", "original"),
            found,
            gap >= -0.5,
            f"{text.get('bpb', '')}, {text.get('original', '')}.",
        ),
        _compare(
            "KBPB with the RBF kernel gives the best accuracy of all compressed forms.",
            ("kbpb-rbf", "bpb"),
            found,
            not better,
            f"{text.get('kbpb-rbf', '')}; better: {', '.join(better) or 'none'}.",
        ),
    ]


def pair_error_verdicts(one: SetInfo) -> list[Verdict]:
    """The paper's statement about pairwise error."""
    whole = mean_of(one.plain("original", "pair-error"), "pair_error")
    bank = {one.ratio(bits): mean.value for bits, mean in one.pair_errors("bpb").items()}
    statement = "Bits of small groups make fewer pairwise errors than one bit of all dimensions (up to D/8)."
    medium = {ratio: error for ratio, error in bank.items() if ratio is not None and ratio >= 8}
    if whole is None or not medium:
        return [Verdict(statement, OPEN, "not measured.")]
    listed = ", ".join(f"D/{ratio} {decimal(error)}" for ratio, error in sorted(medium.items(), reverse=True))
    holds = all(error < whole.value for error in medium.values())
    return [Verdict(statement, AGREES if holds else DIFFERS, f"one bit {decimal(whole.value)}; BPB {listed}.")]


def sensitivity_verdicts(one: SetInfo, k: int) -> list[Verdict]:
    """The paper's statements about lambda and n."""
    verdicts = []
    lam, basis = one.varied("lam", k), one.varied("n_basis", k)
    for method in one.methods("sensitivity"):
        by_lam = {value: mean.value for value, mean in lam.get(method, {}).items()}
        if by_lam:
            best = max(by_lam, key=lambda value: by_lam[value])
            inside = max((value for lam_value, value in by_lam.items() if 0.1 <= lam_value <= 10), default=0.0)
            worst = min(by_lam.values())
            level = "" if inside > worst + CLOSE else f", not {decimal(CLOSE)} above the worst"
            verdicts.append(
                Verdict(
                    f"{method_name(method)} is best for lambda between .1 and 10.",
                    AGREES if not level and inside >= by_lam[best] - CLOSE else DIFFERS,
                    f"best at {best:g} ({decimal(by_lam[best])}); best from .1 to 10: {decimal(inside)}{level}; "
                    f"from the worst to the best {decimal(by_lam[best] - worst)}.",
                )
            )
        by_n = {n: mean.value for n, mean in basis.get(method, {}).items()}
        large = [value for n, value in by_n.items() if n >= 1000]
        if len(large) > 1:
            change = max(large) - min(large)
            values = ", ".join(f"n={n:g} {decimal(value)}" for n, value in sorted(by_n.items()))
            verdicts.append(
                Verdict(
                    "From 1,000 basis samples on, precision is stable.",
                    AGREES if change < 0.01 else DIFFERS,
                    values + ".",
                )
            )
    return verdicts


def soft_verdicts(one: SetInfo, k: int) -> list[Verdict]:
    """The paper's statement about soft groups."""
    verdicts = []
    lines = one.soft_and_hard(k)
    for method in one.methods("soft"):
        if method == "joint":  # not the paper's
            continue
        values = {
            (soft, one.ratio(bits) or 0): mean.value
            for soft in (True, False)
            for bits, mean in lines.get((method, soft), {}).items()
        }
        both = sorted({r for s, r in values if s} & {r for s, r in values if not s}, reverse=True)
        medium, extreme = [r for r in both if r >= 8], [r for r in both if r < 8]
        if medium:
            gaps = {r: values[True, r] - values[False, r] for r in medium}
            text = ", ".join(f"D/{r} {gap:+.3f}" for r, gap in gaps.items())
            verdicts.append(
                Verdict(
                    f"{method_name(method)}: at medium lengths soft groups are level with hard ones.",
                    AGREES if all(abs(gap) <= 0.01 for gap in gaps.values()) else DIFFERS,
                    f"soft less hard: {text}.",
                )
            )
        if extreme:
            gaps = {r: values[True, r] - values[False, r] for r in extreme}
            text = ", ".join(
                f"D/{r} soft {decimal(values[True, r])}, hard {decimal(values[False, r])}" for r in extreme
            )
            verdicts.append(
                Verdict(
                    f"{method_name(method)}: towards D bits soft groups hold while hard ones fail.",
                    AGREES if gaps[min(extreme)] > 0.01 else DIFFERS,
                    text + ".",
                )
            )
    return verdicts


def _ranked(found: dict[str, float], names: list[str]) -> str:
    return _list(found, sorted(names, key=lambda name: -found[name]))


def diagnosis_sentences(one: SetInfo) -> list[str]:
    """Why BPB does worse or better than others, in words."""
    by_method: dict[str, dict[int, Record]] = {}
    for record in one.good("diagnosis"):
        by_method.setdefault(record["method"], {})[record["bits"]] = record
    if "bpb" not in by_method:
        return []
    bits = max(by_method["bpb"])
    bpb = by_method["bpb"][bits]
    sizes = bpb.get("group_sizes")
    sentences = []
    if sizes:
        sentences.append(
            f"{one.title}: at {bits:,} bits the k-means groups of BPB have {sizes[0]:g} to {sizes[-1]:g} dimensions, "
            f"half of them at most {sizes[2]:g}; even groups would have {one.dimensions / bits:.0f}."
        )
    for name, what in (("joint", "the joint bank"), ("lsh", "LSH")):
        other = by_method.get(name, {}).get(bits)
        if other is None:
            continue
        sentences.append(
            f"{one.title}: BPB's bits deviate from an even split by {decimal(bpb['imbalance'])} on average, those of "
            f"{what} by {decimal(other['imbalance'])}; {100 * bpb['near_copies']:.0f} % of BPB's bits are near "
            f"copies of another (correlation above .9), against {100 * other['near_copies']:.0f} %; in effect BPB has "
            f"{bpb['independent']:.0f} independent bits, {what} {other['independent']:.0f}."
        )
    return sentences
