"""Tables for a terminal, as Markdown, and as LaTeX with booktabs."""

import re
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unalike.compare.tables import Grid

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "*": r"$^*$",
    "—": "---",
    "−": "$-$",
}


def terminal(grids: Sequence[Grid], width: int) -> RenderableType:
    """The tables for a terminal of so many columns; one too wide is continued below itself."""
    parts: list[RenderableType] = []
    said: set[str] = set()
    for grid in grids:
        for i, some in enumerate(_fitting(grid, width)):
            parts.append(Text(grid.title if i == 0 else f"{grid.title} (continued)", "bold"))
            parts.append(_table(some))
        parts += [Text(note, style="dim") for note in _new(grid.notes, said)]
        parts.append(Text())
    return Group(*parts)


def markdown(grids: Sequence[Grid], heading: str = "") -> str:
    """The tables as Markdown; a note is given once."""
    blocks = [heading] if heading else []
    said: set[str] = set()
    for grid in grids:
        blocks.append(f"**{_md(grid.title)}**")
        lines = [
            [_md(c) for c in grid.columns],
            ["---", *("---:" for _ in grid.columns[1:])],
            *([f"**{_md(e.text)}**" if e.bold else _md(e.text) for e in row] for row in grid.rows),
        ]
        blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if notes := _new(grid.notes, said):
            blocks.append("\n".join(f"- {_md(note)}" for note in notes))
    return "\n\n".join(blocks) + "\n"


def latex(grids: Sequence[Grid]) -> str:
    """The tables as LaTeX; the preamble needs ``booktabs``."""
    out = ["% needs \\usepackage{booktabs}"]
    for grid in grids:
        out += [
            r"\begin{table}",
            rf"  \caption{{{_tex(grid.title)}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{l{'r' * (len(grid.columns) - 1)}}}",
            r"    \toprule",
            rf"    {' & '.join(_tex(c) for c in grid.columns)} \\",
            r"    \midrule",
        ]
        for row in grid.rows:
            cells = [rf"\textbf{{{_tex(e.text)}}}" if e.bold else _tex(e.text) for e in row]
            out.append(rf"    {' & '.join(cells)} \\")
        out += [r"    \bottomrule", r"  \end{tabular}"]
        if grid.notes:
            notes = r"\\ ".join(_tex(note) for note in grid.notes)
            out.append(rf"  \par\smallskip\footnotesize {notes}")
        out += [r"\end{table}", ""]
    return "\n".join(out)


def _new(notes: Sequence[str], said: set[str]) -> list[str]:
    """The notes that were not given before; from now on they were."""
    new = [note for note in notes if note not in said]
    said.update(new)
    return new


def _fitting(grid: Grid, width: int) -> list[Grid]:
    """The grid cut between columns wherever the next would not fit; names are repeated."""
    wide = [
        max(max(map(len, column.split())), *(len(row[j].text) for row in grid.rows)) + 2
        for j, column in enumerate(grid.columns)
    ]
    groups: list[list[int]] = [[]]
    for j in range(1, len(wide)):
        if groups[-1] and wide[0] + sum(wide[k] for k in groups[-1]) + wide[j] > width + 1:
            groups.append([])
        groups[-1].append(j)
    return [
        grid._replace(
            columns=[grid.columns[k] for k in (0, *group)],
            rows=[[row[k] for k in (0, *group)] for row in grid.rows],
        )
        for group in groups
    ]


def _table(grid: Grid) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for j, column in enumerate(grid.columns):
        table.add_column(Text(column), justify="right" if j else "left", vertical="bottom")
    for row in grid.rows:
        table.add_row(*(Text(e.text, "bold" if e.bold else "", no_wrap=True) for e in row))
    return table


def _md(text: str) -> str:
    return re.sub(r"([\\|*_])", r"\\\1", text).replace("\n", " ")


def _tex(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in text)
