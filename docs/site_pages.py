"""Pages of the site that stand outside docs/: README.md is its front page; CONTRIBUTING, CHANGELOG and SECURITY follow.

A hook of MkDocs (mkdocs.yml). Links are written for a reader of the repository; here they are turned to the site's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Drop the dash behind parameters that are explained by their type alone."""
    return re.sub(r"\s*\u2013\s*(?=</li>|<div class=\"doc-md-description\">\s*</div>)", "", html)


def on_post_build(config: Any) -> None:
    """Remove the page for what is not found: only a server at the root of its address could show it."""
    Path(config["site_dir"], "404.html").unlink(missing_ok=True)


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Turn links between README and docs/ to those of the site; other files of the repository are named, not linked."""
    text = re.sub(r"\]\((\.\./|docs/)", "](", text)
    for name, own in OUTSIDE.items():
        text = text.replace(f"]({name}", f"]({own}")
    return re.sub(r"(?<!!)\[([^\]]+)\]\((LICENSE|CITATION\.cff|(tests|benchmarks|examples)/[^)]*)\)", r"\1", text)
