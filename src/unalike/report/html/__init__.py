"""The report of a folder as one self-contained page, made from its records alone."""

from unalike.report.html.page import write_report

__all__ = ["write_report"]
