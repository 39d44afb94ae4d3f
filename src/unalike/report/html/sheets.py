"""Tables of a page: text with keys to sort it by."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from unalike.compare.tables import DAGGER, DOUBLE, NOTHING, Grid

UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
NUMBER = re.compile(r"^[<\[]?([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([kMGT]?)(?:B\b)?")
MARKS = re.compile(f" [{DAGGER}{DOUBLE}]+$")  # of a row's use of the budget, behind its label


class Box(NamedTuple):
    """One cell: what is read, what it is sorted by, and whether it stands out."""

    text: str
    key: float | str | None
    bold: bool = False


class Line(NamedTuple):
    """One row; ``method`` is the label its switch hides it by, if it belongs to one."""

    boxes: list[Box]
    method: str = ""


class Sheet(NamedTuple):
    """One table with its caption and its footnotes."""

    caption: str
    columns: list[str]
    numeric: list[bool]
    lines: list[Line]
    notes: list[str]


def sheet(grid: Grid, methods: Sequence[str] = (), caption: str | None = None) -> Sheet:
    """A grid with sort keys; rows that begin with the label of a method can be switched off."""
    known = set(methods)
    keys = [[sort_key(row[j].text) for row in grid.rows] for j in range(len(grid.columns))]
    numeric = [not any(isinstance(key, str) for key in column) for column in keys]
    lines = []
    for i, row in enumerate(grid.rows):
        text = row[0].text
        label = text if text in known else MARKS.sub("", text)
        boxes = [
            Box(entry.text, column[i] if number else entry.text, entry.bold)
            for entry, column, number in zip(row, keys, numeric, strict=True)
        ]
        lines.append(Line(boxes, label if label in known else ""))
    title = grid.title if caption is None else caption
    return Sheet(title, grid.columns, numeric, lines, grid.notes)


def sort_key(text: str) -> float | str | None:
    """The number a text begins with, in its unit; the text itself if it begins with none.

    >>> [sort_key(t) for t in ("90.71 ± 2.50*", "7.7 MB", "[-0.4, 1]", "<0.001", "—", "FedAvg")]
    [90.71, 7700000.0, -0.4, 0.001, None, 'FedAvg']
    """
    if text in (NOTHING, ""):
        return None
    found = NUMBER.match(text.replace("−", "-"))
    if found is None:
        return text
    if text[found.end() :][:1].isalnum():  # a name such as '2nn'
        return text
    return float(found[1].replace(",", "")) * UNITS.get(found[2], 1.0)
