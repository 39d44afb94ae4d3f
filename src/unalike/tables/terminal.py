"""Tables for a terminal: nothing is cut, and what is too wide is continued below."""

import io
from collections.abc import Sequence

from rich import box
from rich import table as rich
from rich.cells import cell_len
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.text import Text

from unalike.tables.model import Table, new_notes

GAP = 2  # between two columns


def terminal(tables: Sequence[Table], width: int) -> RenderableType:
    """The tables for a terminal of so many columns; a note is given once."""
    parts: list[RenderableType] = []
    said: set[str] = set()
    for table in tables:
        for i, some in enumerate(_fitting(table, width)):
            if i:
                parts.append(Text())
            if table.title:
                title = table.title if i == 0 else f"{table.title} (continued)"
                parts.append(Text(title, "bold"))
            parts.append(_drawn(some, width))
        parts += [Text(note, style="dim") for note in new_notes(table, said)]
        parts.append(Text())
    return Group(*parts)


def plain_text(tables: Sequence[Table], width: int = 100) -> str:
    """The tables as text without colours, for ``print``."""
    written = io.StringIO()  # in a notebook rich would show what it prints as well
    console = Console(file=written, width=width, color_system=None, force_jupyter=False)
    console.print(terminal(tables, width))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()).strip("\n")


def _fitting(table: Table, width: int) -> list[Table]:
    """The table cut between columns wherever the next would not fit; names are repeated."""
    wide = [w + GAP for w in _least(table, width)]
    groups: list[list[int]] = [[]]
    for j in range(1, len(wide)):
        if groups[-1] and wide[0] + sum(wide[k] for k in groups[-1]) + wide[j] > width + GAP:
            groups.append([])
        groups[-1].append(j)
    return [table.only([0, *group]) for group in groups]


def _texts(table: Table) -> list[int]:
    """The width of the longest text of each column."""
    return [
        max((cell_len(row[j].shown) for row in table.rows), default=0)
        for j in range(len(table.columns))
    ]


def _least(table: Table, width: int) -> list[int]:
    """The width that each column must have: its texts', and its head's longest word's.

    Names may take half the terminal, other words a quarter, and more lines beyond that.
    """
    heads = [max(map(cell_len, column.split()), default=0) for column in table.columns]
    columns = zip(heads, _texts(table), table.numeric, strict=True)
    return [
        max(head, text) if numeric else min(max(head, text), width // (4 if j else 2))
        for j, (head, text, numeric) in enumerate(columns)
    ]


def _widths(table: Table, width: int) -> list[int]:
    """Widths that cut no text; heads and words are on one line as far as there is room."""
    wide, texts = _least(table, width), _texts(table)
    spare = width - sum(wide) - GAP * (len(wide) - 1)
    for j, column in enumerate(table.columns):
        more = max(0, min(spare, max(cell_len(column), texts[j]) - wide[j]))
        wide[j], spare = wide[j] + more, spare - more
    return wide


def _drawn(table: Table, width: int) -> rich.Table:
    out = rich.Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    columns = zip(table.columns, table.numeric, _widths(table, width), strict=True)
    for head, numeric, wide in columns:
        side: JustifyMethod = "right" if numeric else "left"
        out.add_column(Text(head), justify=side, vertical="bottom", width=wide)
    for row in table.rows:
        out.add_row(*(Text(c.shown, "bold" if c.bold else "", overflow="fold") for c in row))
    return out
