"""Tables for a terminal, as Markdown, and as LaTeX with booktabs.

Labels, titles and questions are a user's: whatever they hold is shown as it is, so that no HTML,
link or command of theirs stands in a file. pdfLaTeX knows Latin letters only; Greek or Korean ones
in a label need XeLaTeX or LuaLaTeX.
"""

import re
from collections.abc import Sequence
from typing import Literal

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
    "|": r"\textbar{}",
    '"': r"\char34{}",  # a command of its own under babel
    "`": r"\textasciigrave{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "*": r"$^*$",
    "—": "---",
    "−": "$-$",
}
GAP = 2  # between two columns of a terminal
HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def terminal(grids: Sequence[Grid], width: int) -> RenderableType:
    """The tables for a terminal of so many columns; one too wide is continued below itself."""
    parts: list[RenderableType] = []
    said: set[str] = set()
    for grid in grids:
        for i, some in enumerate(_fitting(grid, width)):
            parts.append(Text(grid.title if i == 0 else f"{grid.title} (continued)", "bold"))
            parts.append(_table(some, width))
        parts += [Text(note, style="dim") for note in _new(grid.notes, said)]
        parts.append(Text())
    return Group(*parts)


def markdown(grids: Sequence[Grid], heading: str = "") -> str:
    """The tables as Markdown; a note is given once."""
    blocks = [in_markdown(heading)] if heading else []
    said: set[str] = set()
    for grid in grids:
        blocks.append(f"**{in_markdown(grid.title)}**")
        lines = [
            [in_markdown(c) for c in grid.columns],
            ["---", *("---:" for _ in grid.columns[1:])],
            *(
                [f"**{in_markdown(e.text)}**" if e.bold else in_markdown(e.text) for e in row]
                for row in grid.rows
            ),
        ]
        blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if notes := _new(grid.notes, said):
            blocks.append("\n".join(f"- {in_markdown(note)}" for note in notes))
    return "\n\n".join(blocks) + "\n"


def latex(grids: Sequence[Grid]) -> str:
    """The tables as LaTeX; the preamble needs ``booktabs``."""
    out = ["% needs \\usepackage{booktabs}"]
    for grid in grids:
        out += [
            r"\begin{table}",
            rf"  \caption{{{in_latex(grid.title)}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{l{'r' * (len(grid.columns) - 1)}}}",
            r"    \toprule",
            rf"    {' & '.join(in_latex(c) for c in grid.columns)} \\",
            r"    \midrule",
        ]
        for row in grid.rows:
            cells = [rf"\textbf{{{in_latex(e.text)}}}" if e.bold else in_latex(e.text) for e in row]
            out.append(rf"    {' & '.join(cells)} \\")
        out += [r"    \bottomrule", r"  \end{tabular}"]
        if grid.notes:
            notes = r"\\ ".join(in_latex(note) for note in grid.notes)
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
    wide = [w + GAP for w in _least(grid, width)]
    groups: list[list[int]] = [[]]
    for j in range(1, len(wide)):
        if groups[-1] and wide[0] + sum(wide[k] for k in groups[-1]) + wide[j] > width + GAP:
            groups.append([])
        groups[-1].append(j)
    return [
        grid._replace(
            columns=[grid.columns[k] for k in (0, *group)],
            rows=[[row[k] for k in (0, *group)] for row in grid.rows],
        )
        for group in groups
    ]


def _least(grid: Grid, width: int) -> list[int]:
    """The width that each column must have: its texts', and its name's longest word's.

    Labels may take half the terminal, and more lines beyond that.
    """
    label, *others = (
        max(max(map(len, column.split())), *(len(row[j].text) for row in grid.rows))
        for j, column in enumerate(grid.columns)
    )
    return [min(label, width // 2), *others]


def _widths(grid: Grid, width: int) -> list[int]:
    """Widths that cut no text; names have a line to themselves as far as there is room."""
    wide = _least(grid, width)
    spare = width - sum(wide) - GAP * (len(wide) - 1)
    for j, column in enumerate(grid.columns):
        more = max(0, min(spare, len(column) - wide[j]))
        wide[j], spare = wide[j] + more, spare - more
    return wide


def _table(grid: Grid, width: int) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for j, (column, wide) in enumerate(zip(grid.columns, _widths(grid, width), strict=True)):
        side: Literal["left", "right"] = "right" if j else "left"
        table.add_column(Text(column), justify=side, vertical="bottom", width=wide)
    for row in grid.rows:
        table.add_row(*(Text(e.text, "bold" if e.bold else "", overflow="fold") for e in row))
    return table


def in_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> print(in_markdown("<b>a_b</b> | [x](y)"))
    &lt;b&gt;a\_b&lt;/b&gt; \| \[x](y)
    """
    escaped = re.sub(r"([\\`*_\[|~#$])", r"\\\1", _one_line(text))
    escaped = re.sub(r"^([-+=](?!\d)|\d+(?=[.)]( |$)))", _no_list, escaped)
    return "".join(HTML.get(c, c) for c in escaped)


def in_latex(text: str) -> str:
    r"""Text that LaTeX shows as it is; a bracket at its start is no argument of a line's end.

    >>> print(in_latex("[a_b] 50 %"))
    {[}a\_b] 50 \%
    """
    parts = re.split(r"(?<=-)(?=-)", _one_line(text))  # two hyphens would be one dash
    escaped = "{}".join("".join(LATEX.get(c, c) for c in part) for part in parts)
    return re.sub(r"^\[", "{[}", escaped)


def _no_list(start: re.Match[str]) -> str:
    """The start of a line that would begin a list or a rule, so that it does not."""
    return f"\\{start[0]}" if start[0] in "-+=" else f"{start[0]}\\"


def _one_line(text: str) -> str:
    """Without control characters, and with single spaces for all white space."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())
