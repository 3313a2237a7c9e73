"""What stands in the report: figures of the results and of the paper, verdicts, files."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from projbank.evaluate.results import read_results
from projbank.paper.report import markdown, overview, paper, plots, sections, write_documents, write_report
from projbank.paper.report.claims import (
    action_verdicts,
    cost_verdicts,
    joint_sentence,
    pair_error_verdicts,
    retrieval_verdicts,
    sensitivity_verdicts,
    soft_verdicts,
)
from projbank.paper.report.content import Cell, mark_best, with_spread
from projbank.paper.report.study import Mean, SetInfo, read_study
from projbank.paper.report.tables import area_table, cost_table, kept_table, retrieval_table


def test_results_are_drawn_again_without_the_data(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("data", "plots", "report.html"))
    assert write_report(copy).read_text() == (folder / "report.html").read_text()
    for path in (folder / "plots").iterdir():
        assert (copy / "plots" / path.name).read_bytes() == path.read_bytes()


def test_the_page_needs_nothing_else(folder):
    page = (folder / "report.html").read_text()
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    assert "http" not in re.sub(r"http://www\.w3\.org/[^\"]*", "", page)  # names of SVG's own vocabulary
    assert "@import" not in page


def test_tables_hold_means_over_seeds():
    one = made_up_set({("lsh", 80): 0.3, ("lsh", 40): 0.2, ("bpb", 80): 0.35, ("bpb", 40): 0.3, ("original", 80): 0.4})
    one.records[""] += [r | {"seed": 1, "precision": {"50": 0.32}} for r in one.records[""] if r["method"] == "lsh"]
    table = retrieval_table(one, 50)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    columns = [(column.title, column.detail, column.owner) for column in table.columns[1:]]
    assert columns[:2] == [("D/16", "40 bits", "ours"), ("D/8", "80 bits", "ours")]
    assert columns[2:] == [(f"D/{r}", s, "paper") for s in ("Flickr 1M", "ILSVRC2010") for r in (16, 8)]
    assert rows["LSH"] == [".260 ± .085", ".310 ± .014", ".270", ".319", ".160", ".185"]
    assert rows["BPB"] == [".300*", ".350*", ".376", ".385", ".197", ".210"]
    assert rows["KBPB² (RBF)"][:2] == ["-", "-"]
    assert "Mean ± deviation over 2 seeds, fewer of Original (1), BPB (1); * one seed." in table.notes
    kept = {row[0].text: [cell.text for cell in row[1:]] for row in kept_table(one).rows}
    assert kept["BPB"] == ["75 %", "88 %", "98 %", "101 %", "92 %", "98 %"]


def test_areas_are_marked_among_binary_methods_of_free_length():
    one = made_up_set({("lsh", 80): 0.3})
    areas = {("original", None): 0.9, ("sign", None): 0.8, ("pca", 80): 0.7, ("lsh", 80): 0.4, ("bpb", 80): 0.5}
    one.records["pr-curves"] = [
        {"method": method, "n_bits": n_bits, "params": {}, "seed": 0, "bits": n_bits or 640, "area": area}
        for (method, n_bits), area in areas.items()
    ]
    table = area_table(one)
    assert [row[0].text for row in table.rows if row[2].best] == ["BPB"]
    assert {row[0].text: row[1].text for row in table.rows}["Sign"] == "own length"
    assert table.notes[-1] == "* One seed."


def test_points_of_one_split_are_hollow_among_others():
    one = made_up_set({("lsh", 80): 0.3, ("lsh", 40): 0.2, ("bpb", 80): 0.35, ("bpb", 40): 0.3})
    assert "hollow" not in plots.precision_figure(one, 50).title
    one.records[""] += [r | {"seed": 1} for r in one.records[""] if (r["method"], r["n_bits"]) == ("bpb", 80)]
    assert (
        "Mean ± deviation over 2 seeds, fewer of LSH (1), BPB (1 to 2); * one seed." in retrieval_table(one, 50).notes
    )
    figure = plots.precision_figure(one, 50)
    assert figure.title.endswith("; hollow: one split")
    canvas = Canvas()
    figure.draw(canvas)
    lines = [line for line in canvas.axes[0].lines if line.get_markerfacecolor() == "none"]
    hollow = {
        (x, y) for line in lines for x, y, drawn in zip(*line.get_data(), line.get_markevery(), strict=True) if drawn
    }
    assert hollow == {(40, 0.2), (80, 0.3), (40, 0.3)}


def test_tables_hold_what_was_measured(folder):
    (one,) = read_study(folder).sets
    records = [r for r in read_results(folder / "results" / "digits.json") if r["method"] == "lsh"]
    longest = max(records, key=lambda r: r["n_bits"])
    table = retrieval_table(one, 50)
    (row,) = [row for row in table.rows if row[0].text == "LSH"]
    column = [c.title for c in table.columns].index("D/8")
    assert row[column].value == longest["precision"]["50"]


def test_variants_have_rows_of_their_own(folder, tmp_path):
    (tmp_path / "results").mkdir()
    content = json.loads((folder / "results" / "digits.json").read_text())
    bank = next(cell for cell in content["cells"] if cell["method"] == "bpb")
    content["cells"].append(bank | {"method": "joint", "params": {"solver": "random"}})
    content["cells"].append(bank | {"params": {"lam": 3.0}})
    (tmp_path / "results" / "digits.json").write_text(json.dumps(content))
    (one,) = read_study(tmp_path).sets
    names = [row[0].text for row in retrieval_table(one, 50).rows]
    assert names == ["Original", "LSH", "BPB", "BPB, lam=3.0", "random bank"]


def test_every_protocol_has_its_section(folder):
    names = [section.name for section in sections.build(read_study(folder))]
    expected = ["summary", "retrieval-digits", "cost", "action", "pair-error", "soft", "pr-curves", "sensitivity"]
    assert names == [*expected, "diagnosis", "examples", "machines"]


def test_documents_are_small_and_linked(folder, tmp_path):
    docs = write_documents(folder, tmp_path / "results")
    text = (docs / "README.md").read_text()
    for path in docs.glob("*.md"):
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
            assert (docs / target).exists(), target
    assert f"projbank report {folder}" in text
    assert max(path.stat().st_size for path in docs.iterdir()) < 150_000
    (docs / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        write_documents(folder, docs)
    assert (docs / "notes.txt").exists()


def test_failures_are_told(folder, tmp_path):
    copy = tmp_path / "copy"
    (copy / "results").mkdir(parents=True)
    path = copy / "results" / "digits.json"
    content = json.loads((folder / "results" / "digits.json").read_text())
    extra = dict(content["cells"][-1]) | {"method": "itq", "error": "MemoryError: <too> much", "params": {}}
    for name in ("precision", "asymmetric"):
        extra.pop(name, None)
    content["cells"].append(extra)
    path.write_text(json.dumps(content))
    page = write_report(copy).read_text()
    assert "ITQ failed at" in page
    assert "MemoryError: &lt;too&gt; much" in page


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no results"):
        write_report(tmp_path)


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}'])
def test_damaged_notes_are_named(folder, tmp_path, text):
    (tmp_path / "results").mkdir()
    shutil.copy(folder / "results" / "digits.json", tmp_path / "results")
    (tmp_path / "sets.json").write_text(text)
    with pytest.raises(ValueError, match=r"sets\.json: "):
        read_study(tmp_path)


def test_the_papers_figures_are_looked_up_by_ratio():
    assert paper.precision("Flickr 1M", "fv", "kbpb-rbf", 50, 8) == 0.398
    assert paper.precision("ILSVRC2010", "vlad", "cbe", 100, 16) == 0.131
    assert paper.precision("ILSVRC2010", "vlad", "alpha0", 50, 8) is None
    assert paper.precision("Flickr 1M", "", "bpb", 50, 8) is None
    assert paper.precision("Flickr 1M", "fv", "bpb", 50, 64) is None
    assert paper.cost("coding ms", "kbpb-rbf", 10) == 19.10
    assert paper.accuracy("vlad", "bpb", 20) == 75.52
    assert paper.accuracy("fv", "alpha0", 10) == 76.78


def made_up_set(values):
    """A set with one record per method and length."""
    one = SetInfo("x", "X", "fv", 100, 640, 5, {})
    protocol = {"queries": 10, "training": 50, "k": [50]}
    one.records[""] = [
        {
            "dataset": {"name": "x"},
            "protocol": protocol,
            "method": method,
            "n_bits": None if method in ("original", "sign") else n_bits,
            "params": {},
            "seed": 0,
            "bits": n_bits,
            "precision": {"50": value},
        }
        for (method, n_bits), value in values.items()
    ]
    return one


@pytest.mark.parametrize(
    ("values", "outcome", "level"),
    [
        ({0.001: 0.30, 1.0: 0.35, 100.0: 0.31}, "agrees", False),
        ({0.001: 0.35, 1.0: 0.31, 100.0: 0.30}, "differs", False),
        ({0.001: 0.352, 1.0: 0.35, 100.0: 0.35}, "differs", True),
        ({0.001: 0.353, 1.0: 0.35, 100.0: 0.347}, "differs", True),  # all of them a little apart
    ],
)
def test_lambda_has_a_best_range_only_where_it_matters(values, outcome, level):
    one = made_up_set({})
    one.records["sensitivity"] = [
        {"method": "bpb", "n_bits": 80, "params": {"lam": lam}, "seed": 0, "bits": 80, "precision": {"50": value}}
        for lam, value in values.items()
    ]
    (found,) = sensitivity_verdicts(one, 50)
    assert found.outcome == outcome
    assert ("not .005 above the worst" in found.evidence) is level


def test_verdicts_follow_the_figures():
    good = {("original", 80): 0.4, ("bpb", 80): 0.4, ("bpb", 40): 0.39, ("lsh", 80): 0.3, ("lsh", 40): 0.2}
    good |= {("cbe", 80): 0.39, ("bpbc", 80): 0.35, ("sign", 80): 0.25, ("kmeans+itq", 80): 0.36}
    good |= {("randst+bpb", 80): 0.35, ("pq", 80): 0.2, ("rr+pq", 80): 0.3}
    good |= {("kbpb-poly", 80): 0.41, ("kbpb-rbf", 80): 0.42, ("sph", 80): 0.3}
    assert [v.outcome for v in retrieval_verdicts(made_up_set(good), 50)] == ["agrees"] * 9
    bad = {key: -value for key, value in good.items()}
    verdicts = retrieval_verdicts(made_up_set(bad), 50)
    assert sum(v.outcome == "differs" for v in verdicts) >= 7
    few = {("original", 80): 0.4, ("lsh", 80): 0.3}
    verdicts = retrieval_verdicts(made_up_set(few), 50)
    assert {v.outcome for v in verdicts} == {"open"}
    assert "not measured: BPB" in verdicts[0].evidence
    below = good | {("bpb", 80): 0.37}
    first, second, *_ = retrieval_verdicts(made_up_set(below), 50)
    assert (first.outcome, second.outcome) == ("differs", "differs")
    assert ".030 below the floats" in first.evidence
    assert "CBE .390" in second.evidence


def summary_of(records, source="from an old table."):
    """A record of means over seeds, as made from single records."""
    values = [record["precision"]["50"] for record in records]
    spread = {"precision": {"50": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}}
    means = {"seed": None, "seeds": [record["seed"] for record in records], "precision": {"50": np.mean(values)}}
    return records[0] | means | {"spread": spread, "source": source}


def seeds_of_lsh(values):
    (record,) = made_up_set({("lsh", 80): 0.0}).records[""]
    return [record | {"seed": seed, "precision": {"50": value}} for seed, value in enumerate(values)]


@pytest.mark.parametrize("n_old", [1, 2, 3, 5])
def test_means_of_old_tables_are_pooled_as_if_every_seed_were_known(n_old):
    values = np.random.default_rng(n_old).random(5)
    one, single = made_up_set({}), seeds_of_lsh(values)
    one.records[""] = [summary_of(single[:n_old]), *single[n_old:]]
    mean = one.precision("lsh", 8, 50)
    assert (mean.value, mean.spread) == pytest.approx((values.mean(), values.std(ddof=1)))
    assert mean.n == 5
    assert one.seeds("lsh", 8) == set(range(5))


def test_no_seed_counts_twice():
    one, single = made_up_set({}), seeds_of_lsh([0.1, 0.2, 0.3, 0.4])
    old = summary_of(seeds_of_lsh([0.7, 0.8, 0.9]))
    for n_new, expected in ((0, 0.8), (2, 0.8), (3, 0.2), (4, 0.25)):
        one.records[""] = [old, *single[:n_new]]
        assert one.precision("lsh", 8, 50).value == pytest.approx(expected)
    one.records[""] = [old, single[0], single[3]]
    assert one.precision("lsh", 8, 50).value == pytest.approx((0.7 + 0.8 + 0.9 + 0.4) / 4)


def test_old_means_stand_in_for_any_of_their_seeds():
    one, single = made_up_set({}), seeds_of_lsh([0.1, 0.2, 0.3, 0.4])
    one.records[""] = [summary_of(single[:3]), single[3]]
    assert one.precision("lsh", 8, 50, seeds={0, 1, 2}).value == pytest.approx(0.2)
    assert one.precision("lsh", 8, 50, seeds={3}).value == 0.4
    assert one.precision("lsh", 8, 50, seeds={0, 3}) is None
    whole = one.precision("lsh", 8, 50, seeds={0, 1})  # can't be taken apart
    assert (whole.value, whole.n) == (pytest.approx(0.25), 4)


def test_old_means_need_not_be_of_the_same_vectors_and_are_told(folder, tmp_path):
    (tmp_path / "results").mkdir()
    content = json.loads((folder / "results" / "digits.json").read_text())
    lsh = next(cell for cell in content["cells"] if cell["method"] == "lsh")
    size = {word: value for word, value in lsh["dataset"].items() if word != "fingerprint"}
    old = lsh | {"method": "itq", "dataset": size, "seed": None, "seeds": [0, 1], "spread": {}, "source": "once."}
    other = lsh | {"method": "cbe", "dataset": size | {"fingerprint": "other"}}
    content["cells"] += [*([old] * 99), other]  # most of all cells
    (tmp_path / "results" / "digits.json").write_text(json.dumps(content))
    study = read_study(tmp_path)
    assert "itq" in study.sets[0].methods()
    assert "cbe" not in study.sets[0].methods()
    (text,) = [part for part in sections.build(study)[1].parts if isinstance(part, str) and "taken over" in part]
    assert text.endswith("99 of the measured means were taken over, once.")

    one = study.sets[0]  # a mean whose seeds were all measured again is not used
    one.records[""] = [old, lsh | {"method": "itq", "seed": 0}]
    assert len(sections._sources(one, "")) == 1
    one.records[""].append(lsh | {"method": "itq", "seed": 1})
    assert sections._sources(one, "") == []


def test_methods_are_compared_on_the_splits_that_they_have():
    values = {("original", 80): 0.4, ("bpb", 80): 0.37, ("kbpb-poly", 80): 0.41, ("kbpb-rbf", 80): 0.42}
    one = made_up_set(values | {("pq", 80): 0.2, ("rr+pq", 80): 0.3})
    second = made_up_set({("original", 80): 0.9, ("bpb", 80): 0.9}).records[""]
    one.records[""] += [record | {"seed": 1} for record in second]
    verdicts = retrieval_verdicts(one, 50)
    assert "BPB .635" in verdicts[0].evidence  # BPB and floats over both splits
    assert (verdicts[3].outcome, verdicts[4].outcome) == ("agrees", "agrees")
    assert "BPB .370" in verdicts[3].evidence
    assert "Original .400" in verdicts[4].evidence
    assert (verdicts[7].outcome, verdicts[7].evidence) == ("agrees", "RR+PQ .300, PQ .200.")


@pytest.mark.parametrize(("learnt_nothing", "best"), [(0.25, "LSH, .300"), (0.35, "random bank, .350")])
def test_the_joint_bank_is_compared_with_others_not_with_forms_of_itself(learnt_nothing, best):
    values = {("original", 80): 0.4, ("joint", 80): 0.41, ("joint grouping=soft", 80): 0.42, ("lsh", 80): 0.3}
    one = made_up_set(values | {("joint solver=random", 80): learnt_nothing})
    assert f"best other binary method: {best}" in joint_sentence(one, 50)


def test_a_method_of_fewer_splits_is_compared_on_those():
    one = made_up_set({("original", 80): 0.5, ("joint", 80): 0.45, ("lsh", 80): 0.3, ("itq", 80): 0.42})
    second = made_up_set({("original", 80): 0.3, ("joint", 80): 0.25, ("lsh", 80): 0.2}).records[""]
    one.records[""] += [record | {"seed": 1} for record in second]
    assert "D/8: .350 (best other binary method: ITQ, .420 over 1 of 2 seeds, where the joint bank has .450)" in (
        joint_sentence(one, 50)
    )
    shares = {row[0].text: row[1].text for row in kept_table(one).rows}
    assert (shares["ITQ"], shares["LSH"]) == ("84 %", "62 %")
    bold = [row[0].text for row in retrieval_table(one, 50).rows if row[1].best]
    assert bold == ["joint bank (ours)"]  # not ITQ, of one split


def test_bilinear_resources_are_those_of_the_papers_table():
    assert plots.resources("bpb", 64000, 8000) == (64000, 64000)
    assert plots.resources("itq", 64000, 8000) == (64000 * 8000, 64000 * 8000)
    stored, products = plots.resources("bpbc", 64000, 8000)  # 250 x 256 to 80 x 100
    assert (stored, products) == (250 * 80 + 256 * 100, 64000 * 180)


def test_one_seed_is_marked_and_the_best_is_bold():
    assert with_spread(Mean(0.3951, 0.0, 1)).text == ".395*"
    assert with_spread(Mean(0.3951, 0.0123, 3)).text == ".395 ± .012"
    assert with_spread(None).text == "-"
    rows = [[Cell("a"), Cell("1", 1.0)], [Cell("b"), Cell("3", 3.0)], [Cell("c"), Cell("2", 2.0)]]
    assert [row[1].best for row in mark_best(rows, [True, False, True])] == [False, False, True]
    assert [row[1].best for row in mark_best(rows, [True] * 3, lowest=True)] == [True, False, False]


def test_plots_take_the_colour_of_the_page_and_have_unique_parts(folder):
    page = (folder / "report.html").read_text()
    figures = sections.all_figures(sections.build(read_study(folder)))
    assert len({figure.name for figure in figures}) == len(figures) == page.count('<svg role="img"')
    assert "currentColor" in page
    assert plots.INK not in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    for figure in figures:
        assert (folder / "plots" / f"{figure.name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"#000000" in (folder / "plots" / f"{figure.name}.svg").read_bytes()


@pytest.mark.parametrize("length", [3, 30, 70])
def test_legends_fit_their_figures(length):
    figure = Canvas(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for name in "abcdef":
        axes.plot([0, 1], [0, 1], label=name * length)
    plots._legend(axes)
    figure.canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_the_joint_banks_own_groups_are_not_called_hard():
    one = made_up_set({})
    common = {"protocol": {"training": 50}, "n_bits": 10, "seed": 0}
    one.records["soft"] = [
        common | {"method": method, "params": params, "precision": {"50": value}}
        for method, params, value in (
            ("bpb", {}, 0.1),
            ("bpb", {"grouping": "soft"}, 0.2),
            ("joint", {}, 0.9),
            ("joint", {"grouping": "learnt"}, 0.3),
            ("joint", {"grouping": "soft"}, 0.4),
        )
    ]
    found = one.soft_and_hard(50)
    assert {key: values[10].value for key, values in found.items()} == {
        ("bpb", False): 0.1,
        ("bpb", True): 0.2,
        ("joint", False): 0.3,
        ("joint", True): 0.4,
    }
    assert all("joint" not in verdict.statement for verdict in soft_verdicts(one, 50))


def over_seeds(word, values, **fixed):
    """Records of one method and length, a seed each."""
    common = {"method": "bpb", "n_bits": 80, "bits": 80, "params": {}, "protocol": {"training": 50}} | fixed
    return [common | {"seed": seed, word: value} for seed, value in enumerate(values)]


def drawn_lines(figure):
    """Points of the lines of a plot by their labels, and the lengths of their error bars."""
    canvas = Canvas()
    figure.draw(canvas)
    bars = {
        bar.get_label(): [np.ptp(part[:, 1]) for part in bar[2][0].get_segments()] for bar in canvas.axes[0].containers
    }
    lines = {line.get_label(): line.get_xydata() for line in canvas.axes[0].lines}
    lines |= {bar.get_label(): bar[0].get_xydata() for bar in canvas.axes[0].containers}
    return lines, bars


def test_pair_errors_are_means_over_seeds():
    one, errors = made_up_set({}), np.array([0.2, 0.5, 0.4])
    one.records["pair-error"] = over_seeds("pair_error", errors)
    one.records["pair-error"] += over_seeds("pair_error", [0.36, 0.38, 0.4], method="original", n_bits=None)
    (verdict,) = pair_error_verdicts(one)
    assert (verdict.outcome, verdict.evidence) == ("agrees", "one bit .380; BPB D/8 .367.")
    lines, bars = drawn_lines(plots.pair_error_figure(one))
    np.testing.assert_allclose(lines["BPB"], [[80, errors.mean()]])
    np.testing.assert_allclose(bars["BPB"], 2 * errors.std(ddof=1))


def test_lambda_is_judged_by_means_over_seeds():
    one = made_up_set({})
    one.records["sensitivity"] = [
        record
        for lam, values in ((0.001, (0.5, 0.1)), (1.0, (0.35, 0.35)))
        for record in over_seeds("precision", [{"50": value} for value in values], params={"lam": lam})
    ]
    (verdict,) = sensitivity_verdicts(one, 50)
    assert verdict.outcome == "agrees"
    (figure,) = plots.varied_figures(one, 50)
    lines, bars = drawn_lines(figure)
    np.testing.assert_allclose(lines["BPB"], [[0.001, 0.3], [1.0, 0.35]])
    np.testing.assert_allclose(bars["BPB"], [2 * np.std([0.5, 0.1], ddof=1), 0], atol=1e-12)


def test_the_overview_has_each_set_at_its_shortest_and_longest_codes():
    values = {("original", 80): 0.4, ("lsh", 80): 0.3, ("lsh", 40): 0.25, ("bpb", 80): 0.35, ("bpb", 40): 0.2}
    one, other = made_up_set(values), made_up_set({("original", 80): 0.5, ("lsh", 40): 0.1})
    other.title = "Y"
    shortest, longest = overview.precision_tables([one, other])
    assert [column.title for column in longest.columns] == ["data set", "codes", "Original", "LSH", "BPB"]
    assert [[cell.text for cell in row] for row in longest.rows] == [
        ["X", "D/8", ".400*", ".300*", ".350*"],
        ["Y", "D/16", ".500*", ".100*", "-"],
    ]
    assert [cell.text for cell in shortest.rows[0] if cell.best] == [".250*"]
    assert [cell.text for cell in longest.rows[0] if cell.best] == [".350*"]
    assert len(overview.precision_tables([other])) == 1  # the same codes need no second table
    assert overview.precision_tables([]) == []
    failed = made_up_set(values)
    failed.records[""] = [record | {"error": "no memory"} for record in failed.records[""]]
    assert overview.precision_tables([failed]) == []
    assert overview.verdicts_of(failed) == []


def test_every_statement_is_said_once_with_the_sets_it_holds_on():
    one, other = (made_up_set({("original", 80): 0.4, ("bpb", 80): value}) for value in (0.4, 0.3))
    other.title = "Y"
    for holder, bits in ((one, 80), (other, 160)):  # the same statement at other lengths
        holder.records["action"] = [
            record | {"n_bits": bits, "bits": bits}
            for name in ("original", "bpb")
            for record in over_seeds("accuracy", [74.0], method=name)
        ]
    found = {verdict.statement: (verdict.outcome, verdict.evidence) for verdict in overview.agreement([one, other])}
    assert found["BPB keeps the precision of the uncompressed vectors."] == ("partly", "Agrees: X. Differs: Y.")
    on_svm = "A linear SVM on BPB codes is within half a point of one on the floats."
    assert found[on_svm] == ("agrees", "Agrees: X; Y.")
    assert found["CBE is the strongest of the earlier binary methods."] == ("open", "Open: X; Y.")
    n_checks = sum(len(overview.verdicts_of(holder)) for holder in (one, other))
    assert n_checks == 2 * len(found)


def test_equal_accuracies_are_not_better():
    one = made_up_set({})
    values = {"original": 74.0, "bpb": 73.6, "kbpb-poly": 73.6, "kbpb-rbf": 73.6 - 1e-13}
    one.records["action"] = [
        record for name, value in values.items() for record in over_seeds("accuracy", [value], method=name)
    ]
    floats, best = action_verdicts(one)
    assert (floats.outcome, floats.evidence) == ("agrees", "BPB 73.6, Original 74.0.")
    assert (best.outcome, best.evidence) == ("agrees", "KBPB² (RBF) 73.6; better: none.")


def test_soft_and_hard_groups_are_compared_on_the_same_seeds():
    one, protocol = made_up_set({}), {"queries": 10, "training": 50, "k": [50]}
    soft = [{"50": value} for value in (0.3, 0.4)]
    hard = [{"50": value} for value in (0.2, 0.3, 0.9)]  # retrieval has one seed more
    one.records["soft"] = over_seeds("precision", soft, params={"grouping": "soft"}, protocol=protocol)
    one.records[""] = over_seeds("precision", hard, protocol=protocol)
    (verdict,) = soft_verdicts(one, 50)
    assert verdict.evidence == "soft less hard: D/8 +0.100."
    lines, _ = drawn_lines(plots.soft_figure(one, 50))
    np.testing.assert_allclose(lines["BPB, hard groups"], [[80, 0.25]])


def test_curves_are_means_over_seeds_of_the_longest_codes():
    one = made_up_set({})
    precision = [[1.0, 0.5, 0.2], [0.8, 0.3, 0.2]]
    one.records["pr-curves"] = over_seeds("precision", precision, recall=[0.1, 0.4, 1.0])
    one.records["pr-curves"] += over_seeds("precision", [[0.0] * 3], recall=[0.1, 0.4, 1.0], n_bits=40)
    figure = plots.curves_figure(one)
    lines, _ = drawn_lines(figure)
    np.testing.assert_allclose(lines["BPB"], [[0.1, 0.9], [0.4, 0.4], [1.0, 0.2]])
    assert figure.title.endswith("80 bits")


def test_cost_is_the_least_of_all_seeds_everywhere():
    one = made_up_set({})
    one.records["cost"] = [
        record | {"training_seconds": 1e3 * record["coding_seconds"], "model_bytes": 10}
        for method, least in (("bpb", 0.001), ("cbe", 0.003), ("bpbc", 0.002))
        for record in over_seeds(
            "coding_seconds", [2 * least, least, 9 * least], method=method, protocol={"training": 50, "coded": 8}
        )
    ]
    (row,) = [row for row in cost_table(one, "coding ms").rows if row[0].text == "BPB"]
    fastest, _, training = cost_verdicts(one)
    lines, _ = drawn_lines(plots.coding_figure(one))
    assert row[1].value == pytest.approx(1.0)
    assert fastest.evidence == "ms per vector: BPBC 2, CBE 3, BPB 1."
    assert training.evidence == "s: BPBC 2, CBE 3, BPB 1."
    np.testing.assert_allclose(lines["BPB"], [[80, 1.0]])


@pytest.mark.parametrize(("seeds", "said"), [((1, 1), "one seed"), ((3, 3), "3 seeds"), ((1, 3), "1 to 3 seeds")])
def test_the_number_of_seeds_is_told(seeds, said):
    one = made_up_set({})
    one.records["soft"] = [
        record
        for n, method in zip(seeds, ("bpb", "kbpb-rbf"), strict=True)
        for record in over_seeds("precision", [{"50": 0.3}] * n, method=method)
    ]
    assert sections._setting(one, "soft") == f"X: 50 training vectors, {said}."


def test_parameters_of_some_lengths_only_are_told():
    one = made_up_set({("itq", 80): 0.3, ("itq", 40): 0.2, ("itq", 20): 0.1, ("lsh", 40): 0.2})
    for record in one.records[""]:
        if record["method"] == "itq" and record["n_bits"] > 20:
            record["params"] = {"max_iter": 10}
    table = retrieval_table(one, 50)
    (row,) = [row for row in table.rows if row[0].text == "ITQ"]
    assert [cell.text for cell in row[1:4]] == [".100*", ".200*", ".300*"]
    assert "ITQ at 40 and 80 bits: max_iter=10." in table.notes
    assert not any("LSH at" in note for note in table.notes)


def test_the_documents_are_those_of_the_records():
    docs = Path(__file__).parents[3] / "docs"
    parts = sections.build(read_study(docs / "records"))
    written = {path.stem: path.read_text(encoding="utf-8") for path in (docs / "results").glob("*.md")}
    assert written.pop("README").startswith(markdown.document(parts[0]).rstrip())
    assert written == {section.name: markdown.document(section) for section in parts[1:]}
