"""A table as HTML that a page's script sorts by the cells' values.

Labels and notes are a user's, so all text is escaped.
"""

from collections.abc import Collection, Sequence
from html import escape

from unalike.tables.model import Cell, Table

SENTENCE = 30  # characters from which on a text may take several lines


def html(table: Table, id: str, switches: Collection[str] = (), sortable: bool = True) -> str:
    """The table with its caption and notes.

    Args:
        table: What to show.
        id: Of the element; that of the caption is the same with ``-title``.
        switches: Labels of methods; a row that begins with one can be hidden by it.
        sortable: Whether heads are buttons that sort the rows.
    """
    name, kinds = escape(id), _kinds(table)
    sorts = ' class="sortable"' if sortable else ""
    heads = "".join(_head(h, kind, sortable) for h, kind in zip(table.columns, kinds, strict=True))
    return "\n".join(
        [
            f'<p class="caption" id="{name}-title">{escape(table.title)}</p>',
            f'<div class="scroll" role="group" aria-labelledby="{name}-title" tabindex="0">',
            f'<table{sorts} id="{name}" aria-labelledby="{name}-title">',
            f"<thead><tr>{heads}</tr></thead>",
            "<tbody>",
            *(_row(row, kinds, switches) for row in table.rows),
            "</tbody>",
            "</table>",
            "</div>",
            *(f'<p class="note">{escape(note)}</p>' for note in table.notes),
        ]
    )


def _kinds(table: Table) -> list[str]:
    """The class of each column: numbers, sentences that may wrap, or neither."""
    out = []
    for j, numeric in enumerate(table.numeric):
        long = j > 0 and any(len(row[j].shown) > SENTENCE for row in table.rows)
        out.append("number" if numeric else "words" if long else "")
    return out


def _head(head: str, kind: str, sortable: bool) -> str:
    said = f' class="{kind}"' if kind else ""
    if not sortable:
        return f'<th scope="col"{said}>{escape(head)}</th>'
    button = f'<button type="button">{escape(head)}</button>'
    return f'<th scope="col" aria-sort="none"{said}>{button}</th>'


def _row(row: Sequence[Cell], kinds: Sequence[str], switches: Collection[str]) -> str:
    first = row[0].value
    method = f' data-method="{escape(str(first))}"' if first in switches else ""
    cells = (_cell(cell, kinds[j], "td" if j else "th") for j, cell in enumerate(row))
    return f"<tr{method}>{''.join(cells)}</tr>"


def _cell(cell: Cell, kind: str, tag: str) -> str:
    said = ' scope="row"' if tag == "th" else ""
    said += f' class="{kind}"' if kind else ""
    if kind == "number":
        said += f' data-key="{"" if cell.value is None else cell.value}"'
    text = escape(cell.shown)
    text = f"<strong>{text}</strong>" if cell.bold else text
    return f"<{tag}{said}>{text}</{tag}>"
