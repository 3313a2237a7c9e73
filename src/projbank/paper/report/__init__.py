"""The report: what a folder of results holds, as one HTML page, and its plots as files."""

from projbank.paper.report.html import write_report

__all__ = ["write_report"]
