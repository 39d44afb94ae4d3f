"""The tables of a report, for the terminal and as Markdown, from plain rows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from rich.table import Table
from rich.text import Text

from unalike.errors import DataError

Cell: TypeAlias = str | int | float | tuple[float, float] | None  # a pair is a mean and its spread
Row: TypeAlias = Mapping[str, Cell]
Goal: TypeAlias = Literal["max", "min"]

NOTHING = "—"  # for what is missing or undefined

SKEW_COUNTS = ("clients", "classes", "examples", "smallest", "largest")
SKEW_MEANINGS = {
    "clients": "number of clients",
    "classes": "number of classes",
    "examples": "examples of all clients",
    "emd": "L1 distance from the pooled labels, by size",
    "emd_unweighted": "the same, every client counting alike",
    "emd_uniform": "L1 distance from uniform labels, by size",
    "kl": "Kullback-Leibler divergence from pooled, nats",
    "js": "Jensen-Shannon divergence, nats, 0 to 0.693",
    "hellinger": "Hellinger distance from pooled, 0 to 1",
    "entropy": "entropy of the labels of a client, nats",
    "gini": "Gini coefficient of the sizes, 0 is equal",
    "smallest": "examples of the smallest client",
    "largest": "examples of the largest client",
}


class Grid(NamedTuple):
    """A table as text, before anything is known of the medium."""

    columns: list[str]
    numeric: list[bool]
    cells: list[list[str]]
    best: list[list[bool]]


def comparison_table(
    rows: Sequence[Row], title: str = "", best: Mapping[str, Goal] | None = None
) -> Table:
    """One line per row, one column per key, the best of a column in bold.

    Args:
        rows: Usually one per method; a pair shows as mean ± spread, None and NaN as a dash.
        title: Title above the table.
        best: Whether more or less is better, by column; columns that do not occur are ignored.
    """
    grid = _grid(rows, best or {})
    table = Table(title=title or None, title_justify="left")
    for name, numeric in zip(grid.columns, grid.numeric, strict=True):
        table.add_column(Text(name), justify="right" if numeric else "left")
    for cells, marks in zip(grid.cells, grid.best, strict=True):
        table.add_row(*(Text(c, "bold" if b else "") for c, b in zip(cells, marks, strict=True)))
    return table


def comparison_markdown(rows: Sequence[Row], best: Mapping[str, Goal] | None = None) -> str:
    """The rows of ``comparison_table`` as a Markdown table."""
    grid = _grid(rows, best or {})
    lines = [
        [_escape(name) for name in grid.columns],
        ["---:" if numeric else "---" for numeric in grid.numeric],
    ]
    for cells, marks in zip(grid.cells, grid.best, strict=True):
        bold = zip(map(_escape, cells), marks, strict=True)
        lines.append([f"**{cell}**" if mark else cell for cell, mark in bold])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def skew_table(skew: Mapping[str, float], title: str = "Skew") -> Table:
    """Every measure of a partition with its meaning."""
    return comparison_table(_skew_rows(skew), title)


def skew_markdown(skew: Mapping[str, float]) -> str:
    """The rows of ``skew_table`` as a Markdown table."""
    return comparison_markdown(_skew_rows(skew))


def _skew_rows(skew: Mapping[str, float]) -> list[Row]:
    return [
        {
            "measure": name,
            "value": int(value) if name in SKEW_COUNTS and float(value).is_integer() else value,
            "meaning": SKEW_MEANINGS.get(name, ""),
        }
        for name, value in skew.items()
    ]


def _grid(rows: Sequence[Row], best: Mapping[str, Goal]) -> Grid:
    if not rows:
        raise DataError("there is nothing to tabulate: give at least one row.")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = [[row.get(name) for name in columns] for row in rows]
    by_column = list(zip(*table, strict=True))
    targets = [_best(c, best.get(name)) for name, c in zip(columns, by_column, strict=True)]
    return Grid(
        columns,
        [not any(isinstance(cell, str) for cell in column) for column in by_column],
        [[_text(cell) for cell in line] for line in table],
        [[_number(c) == t for c, t in zip(line, targets, strict=True)] for line in table],
    )


def _best(column: Iterable[Cell], goal: Goal | None) -> float:
    """The value to be marked; NaN, which equals nothing, if there is none."""
    numbers = [x for x in map(_number, column) if not math.isnan(x)]
    if goal is None or not numbers:
        return math.nan
    return max(numbers) if goal == "max" else min(numbers)


def _number(cell: Cell) -> float:
    """What a cell is compared by; NaN if it is no number."""
    if isinstance(cell, tuple):
        cell = cell[0]
    return math.nan if cell is None or isinstance(cell, str) else float(cell)


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        mean, spread = map(_text, cell)
        return mean if NOTHING in (mean, spread) else f"{mean} ± {spread}"
    if cell is None or math.isnan(cell):
        return NOTHING
    if isinstance(cell, int):
        return f"{cell:,}"
    if 0 < abs(cell) < 5e-5:  # four decimals would show it as nothing
        return f"{cell:.1e}"
    return f"{cell:.4f}" if abs(cell) < 1e4 else f"{cell:,.0f}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
