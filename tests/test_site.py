"""The site: pages are built without a warning, links inside it lead somewhere, and nothing needs a network."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """Anchors of a page, its links, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loaded = {""}, [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[word] for word in ("id", "name") if found.get(word)}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("material", "mkdocstrings"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(pages, site):
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data", "javascript"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (target in pages and unquote(parts.fragment) not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_it_works_without_a_network(pages, site):
    assert [link for page in pages.values() for link in page.loaded if urlsplit(link).scheme in ("http", "https")] == []
    assert (site / "search" / "search_index.js").exists()


def test_search_works_in_pages_opened_from_a_disk(site):
    playwright = pytest.importorskip("playwright.sync_api")
    pytest.importorskip("fcntl")
    from tests.paper.report.browser import FLAGS, find_browser

    if find_browser() is None:
        pytest.skip("no Chromium on this machine; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        page = browser.new_page()
        page.goto(f"file://{site}/guide.html")
        page.click("input.md-search__input")
        page.keyboard.type("asymmetric")
        page.wait_for_selector(".md-search-result__item")
        assert "asymmetric" in page.inner_text(".md-search-result__list").lower()
        browser.close()


def test_search_finds_pages_and_classes(site):
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    found = {entry["location"] for entry in json.loads(text.partition("=")[2].rstrip(";\n "))["docs"]}
    assert {"guide.html", "glossary.html", "api/banks.html#projbank.bank.ProjectionBank"} <= found
