"""The sentences of a Markdown page: without code, tables, pictures, headings and marks."""

import re


def sentences(text):
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    blocks, block = [], []
    for line in [*text.splitlines(), ""]:
        is_prose = bool(line.strip()) and not line.startswith(("    ", "|", "#"))
        starts = line.startswith(("- ", "* ")) or re.match(r"\d+\. ", line)
        if block and (not is_prose or starts):
            blocks.append(" ".join(block))
            block = []
        if is_prose:
            block.append(re.sub(r"^([-*]|\d+\.) ", "", line.strip()))
    split = [one for block in blocks for one in re.split(r"(?<=[.!?:])\*?\s+(?=[A-Z`*])", block)]
    return [re.sub(r"[`*]", "", one).strip() for one in split]


def words(text):
    """Words and numbers; lines of tables and marks do not count."""
    return [one for one in text.split() if re.search(r"\w", one)]
