"""Documents: links lead somewhere, code imports, figures are those of the records, and no word puzzles a reader."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import textstat

from tests.prose import sentences, words

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 12_000
LONGEST_SENTENCE = 25
LEAST_EASE = 60
"""Flesch reading ease: 50 and more is plain English; syllables by hyphenation are counted 5 points too kindly."""

HOW_IT_CAME_ABOUT = (
    r"\.\./shared",
    r"(?<![\w.])/(work|home|tmp|root|mnt|Users|opt|usr|var)/",
    r"\bsessions?\b",
    r"\bprototypes?\b",
    r"\bcommit [0-9a-f]{7}",
    r"\b20\d\d-\d\d-\d\d\b",
    r"\b(earlier|latest|other|second|tenth|numbered) runs?\b",
    r"\bgoals?\b",
    r"\b(was|were|are) lost with\b",
    r"\blost machines?\b",
    r"\bquiet machine\b",
    r"\bunder (heavy )?load\b",
    r"\b(pypi\.org|pythonhosted|artifactory|nexus|devpi|conda\.anaconda)\b",
)
"""How and where the work was done belongs in commit messages and result files."""
PUZZLES = (
    r"\bfor who\b",
    r"\bno one twice\b",
    r"\b(is|are) told (by|later)\b",
    r"\bGive an? \b",
    r"\bthe affair of\b|\bs affair\b",
    r"\bfor who(ever)? needs?\b",
    r"\beach only once\b",
    r"\bfirst bytes tell\b",
    r"\bnowadays\b|\bsimply\b|\bjust\b|\bleverag\w*|\bseamless\w*|\bblazing\w*|\bcutting.edge\b|\bstate.of.the.art\b",
    r"\butili[sz]e\w*",
    r"\bin order to\b",
)
"""Turns of phrase that readers stumbled over."""


def relative(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_every_relative_link_exists(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        if file.startswith(("http://", "https://", "mailto:")):
            continue
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", one).lower().replace(" ", "-") for one in headings}, target


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=relative)
@pytest.mark.parametrize("words", [HOW_IT_CAME_ABOUT, PUZZLES], ids=["how it came about", "puzzles"])
def test_no_forbidden_words(path, words):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = [match.group() for word in words if (match := re.search(word, line))]
        assert not found, f"{relative(path)}:{number}: {found[0]!r} in: {line.strip()[:120]}"


def test_the_documents_stay_short():
    assert sum(len(words(path.read_text(encoding="utf-8"))) for path in PAGES) <= MOST_WORDS


def test_sentences_of_the_readme_are_short():
    found = sentences((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(found) > 20
    assert [one for one in found if len(words(one)) > LONGEST_SENTENCE] == []


@pytest.mark.parametrize("path", [path for path in PAGES if path.parent.name != "api"], ids=relative)
def test_pages_are_easy_to_read(path, monkeypatch):
    monkeypatch.setattr("textstat.backend.counts._count_syllables.get_cmudict", lambda lang: None)  # a download
    found = [one.rstrip(":") + "." for one in sentences(path.read_text(encoding="utf-8"))]
    assert textstat.flesch_reading_ease("\n".join(found)) >= LEAST_EASE


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_imports_in_examples_work(path):
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("projbank"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_benchmarks_that_are_named_exist(path):
    for name in re.findall(r"python -m benchmarks\.(\w+)", path.read_text(encoding="utf-8")):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name


def test_every_page_and_picture_is_linked():
    links = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*"):
        if path.suffix in {".png", ".svg"}:
            assert f"{path.name})" in links, relative(path)
        if path.suffix == ".md":
            assert re.search(rf"[ ]{re.escape(path.relative_to(ROOT / 'docs').as_posix())}$", contents, re.M), relative(
                path
            )


def test_the_results_page_is_that_of_the_records():
    subprocess.run([sys.executable, ROOT / "docs" / "make_results.py", "--check"], check=True)
