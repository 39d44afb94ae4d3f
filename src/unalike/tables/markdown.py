"""Tables as Markdown.

Labels, titles and questions are a user's: whatever they hold is shown as it is, so that no HTML,
link or emphasis of theirs stands in a file.
"""

import re
from collections.abc import Sequence

from unalike.tables.model import Cell, Table, new_notes
from unalike.tables.text import one_line

HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(tables: Sequence[Table], heading: str = "") -> str:
    """The tables as Markdown; a note is given once."""
    blocks = [in_markdown(heading)] if heading else []
    said: set[str] = set()
    for table in tables:
        if table.title:
            blocks.append(f"**{in_markdown(table.title)}**")
        lines = [
            [in_markdown(column) for column in table.columns],
            ["---:" if numeric else "---" for numeric in table.numeric],
            *([_cell(cell) for cell in row] for row in table.rows),
        ]
        blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if notes := new_notes(table, said):
            blocks.append("\n".join(f"- {in_markdown(note)}" for note in notes))
    return "\n\n".join(blocks) + "\n"


def in_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> print(in_markdown("<b>a_b</b> | [x](y)"))
    &lt;b&gt;a\_b&lt;/b&gt; \| \[x](y)
    """
    escaped = re.sub(r"([\\`*_\[|~#$])", r"\\\1", one_line(text))
    escaped = re.sub(r"^([-+=](?!\d)|\d+(?=[.)]( |$)))", _no_list, escaped)
    return "".join(HTML.get(c, c) for c in escaped)


def _cell(cell: Cell) -> str:
    text = in_markdown(cell.shown)
    return f"**{text}**" if cell.bold else text


def _no_list(start: re.Match[str]) -> str:
    """The start of a line that would begin a list or a rule, so that it does not."""
    return f"\\{start[0]}" if start[0] in "-+=" else f"{start[0]}\\"
