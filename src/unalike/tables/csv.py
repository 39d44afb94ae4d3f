"""A table as CSV for programs: values with all their digits, nothing for what is missing."""

import csv as writer
import io

from unalike.tables.model import Table, Value


def csv(table: Table) -> str:
    """The heads and the values of a table."""
    out = io.StringIO()
    lines = writer.writer(out, lineterminator="\n")
    lines.writerow(table.columns)
    lines.writerows([_plain(cell.value) for cell in row] for row in table.rows)
    return out.getvalue()


def _plain(value: Value) -> Value:
    if isinstance(value, bool):  # as JSON has it
        return "true" if value else "false"
    return value
