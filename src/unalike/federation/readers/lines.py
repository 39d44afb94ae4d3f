"""The lines of a CSV file: where a row stands, and what is wrong with one that cannot be read."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from unalike.federation.columns import Csv

_OTHERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas", " ": "spaces"}


def line_of(path: Path, row: int, how: Csv) -> int:
    """The line, from 1, on which a row, from 0, begins; the header comes before row 0."""
    return next((line for line, _ in islice(_records(path, how), row + 1, None)), row + 2)


def complaint(path: Path, how: Csv) -> str:
    """Why the file is not a table, in words that fit after a colon; empty if nothing is found."""
    records = _records(path, how)
    _, head = next(records, (1, []))
    second = next(records, (2, []))
    if len(head) == 1 and (used := _separator(head[0], second[1])):
        given = how.separates(path.name)
        wanted = _OTHERS.get(given, repr(given))
        return (
            f"its header seems to be separated by {_OTHERS[used]}, not by {wanted}; set "
            f"data.separator = {used!r}"
        )
    for line, fields in chain([second], records):
        if len(fields) > len(head):
            return f"line {line} has {len(fields)} fields where the header has {len(head)}"
    if line := next((line for line, text in _lines(path, how) if text.count('"') % 2), 0):
        return f"line {line} has an unmatched quotation mark"
    return ""


def _separator(head: str, first: list[str]) -> str:
    """What separates the fields of a header that was read as one; empty if nothing seems to."""
    for one in _OTHERS:
        if one in head and (one != " " or [head.count(one)] == [f.count(one) for f in first]):
            return one
    return ""


def _lines(path: Path, how: Csv) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, from 1, as far as they can be read."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    encoding = "utf-8-sig" if how.encoding == "utf-8" else how.encoding
    try:
        with opened(path, "rt", encoding=encoding, errors="replace", newline="") as file:
            yield from enumerate(file, 1)
    except (OSError, EOFError, zlib.error):
        return


def _records(path: Path, how: Csv) -> Iterator[tuple[int, list[str]]]:
    """The line on which a record begins and its fields, as far as they can be read."""
    records = csv.reader((t for _, t in _lines(path, how)), delimiter=how.separates(path.name))
    begin, headed = 1, False
    try:
        for fields in records:
            headed = headed or bool(fields)  # blank lines before the header are not rows
            if headed:
                yield begin, fields
            begin = records.line_num + 1
    except csv.Error:
        return
