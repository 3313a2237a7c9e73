"""The report as Markdown with small PNG pictures, for a folder of documents under version control."""

from __future__ import annotations

from projbank.paper.report.content import Cell, Code, Column, Figure, Gallery, Section, Table, Verdict


def document(section: Section) -> str:
    """One section as a document."""
    lines = [f"# {section.title}", ""]
    for part in section.parts:
        if isinstance(part, str):
            lines += [part, ""]
        elif isinstance(part, Table):
            lines += _table(part)
        elif isinstance(part, Figure | Gallery):
            ending = "jpg" if isinstance(part, Gallery) else "png"
            lines += [f"![{part.title}]({part.name}.{ending})", ""]
        elif isinstance(part, Code):
            lines += [*(f"    {line}" for line in part.lines), ""]
        elif part:
            lines += _verdicts(part)
    return "\n".join(lines).rstrip() + "\n"


def index(sections: list[Section], command: str) -> str:
    """The first document: the summary, links to the others, and how all of it was made."""
    summary, *others = sections
    lines = [document(summary).rstrip(), "", "| | checks: agree / differ / open |", "|---|---|"]
    for section in others:
        verdicts = [v for part in section.parts if isinstance(part, list) for v in part]
        counts = [sum(v.outcome == outcome for v in verdicts) for outcome in ("agrees", "differs", "open")]
        score = " / ".join(map(str, counts)) if verdicts else ""
        lines.append(f"| [{section.title}]({section.name}.md) | {score} |")
    lines += ["", "These pages are written from the results, without measuring anything, by", "", f"    {command}", ""]
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    lines = [f"**{table.title}**", ""]
    lines.append("| " + " | ".join(_heading(column) for column in table.columns) + " |")
    lines.append("|---|" + "---:|" * (len(table.columns) - 1))
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table.rows]
    if table.notes:
        lines += ["", *[f"- {note.replace('*', chr(92) + '*')}" for note in table.notes]]
    return [*lines, ""]


def _heading(column: Column) -> str:
    detail = f"<br>{_escape(column.detail)}" if column.detail else ""
    return ("paper: " if column.owner == "paper" else "") + _escape(column.title) + detail


def _cell(cell: Cell) -> str:
    text = _escape(cell.text)
    return f"**{text}**" if cell.best else text


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _verdicts(verdicts: list[Verdict]) -> list[str]:
    rows = [f"| **{v.outcome}** | {_escape(v.statement)} | {_escape(v.evidence)} |" for v in verdicts]
    return ["| here | the paper says | figures |", "|---|---|---|", *rows, ""]
