"""Two hundred tables as nobody wants them, made of a good one; and thirty models that break."""

import gzip
import io
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

HEAD = ["hospital", "age", "pressure", "ward", "smoker", "outcome"]
Rows = list[list[str]]


class Table(NamedTuple):
    """A file, and the settings of ``[data]`` it is read with beside path, label and client."""

    name: str
    file: str
    raw: bytes
    settings: str = ""


def good(draw: random.Random) -> Rows:
    """A header and its rows."""
    rows = []
    for i in range(60):
        ward = draw.choice(["surgery", "heart", "lung"])
        smoker = draw.choice(["yes", "no"])
        ill = "ill" if draw.random() < 0.5 else "well"
        numbers = [f"{draw.gauss(50, 15):.0f}", f"{draw.gauss(120, 20):.1f}"]
        rows.append([["north", "south", "west"][i % 3], *numbers, ward, smoker, ill])
    return [HEAD, *rows]


def text(rows: Rows, separator: str = ",", end: str = "\n") -> bytes:
    return (end.join(separator.join(row) for row in rows) + end).encode()


Change = Callable[[Rows, random.Random], bytes]


def cells(column: int, share: float, *values: str) -> Change:
    """Some cells of a column are something else."""

    def change(rows: Rows, draw: random.Random) -> bytes:
        for row in rows[1:]:
            if draw.random() < share:
                row[column] = draw.choice(values)
        return text(rows)

    return change


def one(column: int, value: str) -> Change:
    """One cell is something else."""

    def change(rows: Rows, draw: random.Random) -> bytes:
        rows[draw.randrange(1, len(rows))][column] = value
        return text(rows)

    return change


def header(column: int, name: str) -> Change:
    def change(rows: Rows, draw: random.Random) -> bytes:
        rows[0] = [*rows[0]]
        rows[0][column] = name
        return text(rows)

    return change


def each(column: int, value: Callable[[int], str]) -> Change:
    """Every cell of a column is something else."""

    def change(rows: Rows, draw: random.Random) -> bytes:
        for i, row in enumerate(rows[1:]):
            row[column] = value(i)
        return text(rows)

    return change


def ragged(length: int) -> Change:
    def change(rows: Rows, draw: random.Random) -> bytes:
        at = draw.randrange(1, len(rows))
        rows[at] = (rows[at] + ["x"] * 9)[: max(0, len(HEAD) + length)]
        return text(rows)

    return change


def inserted(line: bytes) -> Change:
    def change(rows: Rows, draw: random.Random) -> bytes:
        lines = text(rows).splitlines(keepends=True)
        lines.insert(draw.randrange(0, len(lines)), line + b"\n")
        return b"".join(lines)

    return change


def flipped(rows: Rows, draw: random.Random) -> bytes:
    raw = bytearray(text(rows))
    for _ in range(draw.randrange(1, 6)):
        raw[draw.randrange(len(raw))] = draw.randrange(256)
    return bytes(raw)


def cut(rows: Rows, draw: random.Random) -> bytes:
    raw = text(rows)
    return raw[: draw.randrange(len(raw))]


def kept(columns: list[int], many: int | None = None) -> Change:
    return lambda rows, draw: text([[row[j] for j in columns] for row in rows[:many]])


CHANGES: dict[str, Change] = {
    "empty": lambda rows, draw: b"",
    "blank lines": lambda rows, draw: b"\n\n\n",
    "header alone": lambda rows, draw: text(rows[:1]),
    "one row": lambda rows, draw: text(rows[:2]),
    "three rows": lambda rows, draw: text(rows[:4]),
    "no header": lambda rows, draw: text(rows[1:]),
    "header twice": lambda rows, draw: text([*rows[:9], rows[0], *rows[9:]]),
    "title above": lambda rows, draw: b"Patients of 2024\n\n" + text(rows),
    "sums below": lambda rows, draw: text([*rows, ["total", "", "", "", "", ""]]),
    "byte order mark": lambda rows, draw: b"\xef\xbb\xbf" + text(rows),
    "utf-16": lambda rows, draw: text(rows).decode().encode("utf-16"),
    "latin-1": lambda rows, draw: text(rows).replace(b"heart", b"c\xe9ur"),
    "old Mac": lambda rows, draw: text(rows, end="\r"),
    "Windows": lambda rows, draw: text(rows, end="\r\n"),
    "semicolons": lambda rows, draw: text(rows, ";"),
    "tabs": lambda rows, draw: text(rows, "\t"),
    "pipes": lambda rows, draw: text(rows, "|"),
    "spaces": lambda rows, draw: text(rows, " "),
    "comma and space": lambda rows, draw: text(rows, ", "),
    "decimal commas": lambda rows, draw: text(rows, ";").replace(b".", b","),
    "decimal commas in quotes": each(1, lambda i: f'"{i},5"'),
    "thousands": each(1, lambda i: f'"{i + 1},000"'),
    "money": each(1, lambda i: f"${i}"),
    "percent": each(1, lambda i: f"{i}%"),
    "units": each(1, lambda i: f"{i} years"),
    "dates": each(1, lambda i: f"2024-01-{i % 28 + 1:02}"),
    "German dates": each(1, lambda i: f"{i % 28 + 1}.1.2024"),
    "times": each(1, lambda i: f"12:{i % 60:02}"),
    "hexadecimal": each(1, hex),
    "all the same": each(1, lambda i: "7"),
    "all missing": each(1, lambda i: ""),
    "counting": each(1, str),
    "identifiers": each(3, lambda i: f"patient-{i}"),
    "long numbers": each(1, lambda i: f"1234567890123456789{i:02}"),
    "long text": one(3, "x" * 100_000),
    "lists": each(1, lambda i: f'"[{i}, 2]"'),
    "JSON in a cell": each(1, lambda i: '"{""a"": 1}"'),
    "truth and numbers": cells(1, 0.5, "True", "False"),
    "half text": cells(1, 0.5, "old", "young"),
    "one text": one(1, "fifty"),
    "one text with a space": one(1, "5 0"),
    "infinite": one(1, "inf"),
    "minus infinite": one(2, "-Infinity"),
    "not a number": one(1, "NaN"),
    "too large": one(1, "1e39"),
    "much too large": one(1, "1e400"),
    "denormal": one(1, "1e-320"),
    "negative zero": one(1, "-0"),
    "question marks": cells(1, 0.2, "?"),
    "NA": cells(1, 0.2, "NA"),
    "minus nine hundred": cells(1, 0.2, "-999"),
    "dashes": cells(1, 0.2, "-"),
    "missing text": cells(3, 0.3, ""),
    "missing labels": cells(5, 0.2, ""),
    "missing clients": cells(0, 0.2, ""),
    "one missing label": one(5, "?"),
    "one missing client": one(0, ""),
    "label of one class": each(5, lambda i: "ill"),
    "label of each row": each(5, lambda i: f"case {i}"),
    "a measured label": each(5, lambda i: f"{i * 1.37:.2f}"),
    "a rare class": one(5, "dead"),
    "labels with spaces": cells(5, 0.3, " ill", "ill "),
    "labels in capitals": cells(5, 0.3, "ILL", "Ill"),
    "labels 0 1 and text": cells(5, 0.5, "0", "1"),
    "a date for a label": each(5, lambda i: f"2024-0{i % 9 + 1}-01"),
    "one client": each(0, lambda i: "north"),
    "a client for each row": each(0, lambda i: f"h{i}"),
    "a client of one row": one(0, "tiny"),
    "clients as numbers": each(0, lambda i: str(i % 3)),
    "clients as fractions": each(0, lambda i: f"{i % 3}.5"),
    "clients with slashes": each(0, lambda i: f"../{i % 3}/x"),
    "clients with odd letters": each(0, lambda i: ["Zürich", "東京", "🏥"][i % 3]),
    "label column misspelt": header(5, "outcom"),
    "label column in capitals": header(5, "Outcome"),
    "label column with a space": header(5, " outcome"),
    "client column misspelt": header(0, "hospitals"),
    "two columns of one name": header(2, "age"),
    "two labels": header(4, "outcome"),
    "a column without a name": header(2, ""),
    "a column named by a number": header(2, "3"),
    "a column with a quote": header(2, 'press"ure'),
    "a column with a bracket": header(2, "[press]"),
    "a very long name": header(2, "p" * 5000),
    "no features": kept([0, 5]),
    "no clients": kept([1, 2, 3, 5]),
    "no labels": kept([0, 1, 2, 3]),
    "labels alone": kept([5]),
    "a field too many": ragged(1),
    "a field too few": ragged(-1),
    "an empty line": ragged(-6),
    "many fields too many": ragged(9),
    "an open quote": one(3, '"heart'),
    "a quote in a word": one(3, 'he"art'),
    "a comment": inserted(b"# a comment"),
    "a line of zeros": inserted(b"\x00" * 40),
    "a line of bytes": inserted(bytes(range(128, 256))),
    "a zero byte": one(3, "he\x00art"),
    "damaged": flipped,
    "damaged again": flipped,
    "damaged once more": flipped,
    "cut off": cut,
    "cut off again": cut,
    "cut off once more": cut,
    "JSON": lambda rows, draw: b'[{"age": 3, "outcome": "ill"}]',
    "HTML": lambda rows, draw: b"<html><table><tr><td>1</td></tr></table></html>",
    "a ZIP archive": lambda rows, draw: b"PK\x03\x04" + bytes(200),
    "a PDF": lambda rows, draw: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(100),
    "noise": lambda rows, draw: draw.randbytes(5000),
}
SETTINGS = {  # with which some of the files are read, beside label and client
    "plain": "",
    "filled": 'missing = "impute"',
    "semicolons": 'separator = ";"',
    "latin-1": 'encoding = "latin-1"',
    "no such encoding": 'encoding = "klingon"',
    "dropped": 'drop = ["age", "nothing"]',
    "label dropped": 'drop = ["outcome"]',
    "split": 'split = "smoker"',
    "together": 'together = "ward"',
    "protected": 'protected = ["ward"]',
    "scaled": 'normalise = "client"',
    "own missing": 'na_values = ["-999", "-"]',
}


def compressed() -> Iterator[Table]:
    """Files of other kinds, whole and damaged."""
    rows = good(random.Random(9))
    whole = gzip.compress(text(rows))
    yield Table("gzip", "t.csv.gz", whole)
    yield Table("gzip, cut off", "t.csv.gz", whole[: len(whole) // 2])
    yield Table("no gzip", "t.csv.gz", text(rows))
    yield Table("gzip without its name", "t.csv", whole)
    frame = pl.DataFrame(rows[1:], schema=HEAD, orient="row")
    raw = io.BytesIO()
    frame.write_parquet(raw)
    yield Table("Parquet of text", "t.parquet", raw.getvalue())
    yield Table("Parquet, cut off", "t.parquet", raw.getvalue()[:-50])
    yield Table("no Parquet", "t.parquet", text(rows))
    yield Table("an empty Parquet", "t.parquet", b"")
    odd = {
        "lists": [[1, 2]] * 60,
        "structs": [{"a": 1}] * 60,
        "binary": [b"x"] * 60,
        "times": pl.Series(range(60), dtype=pl.Int64).cast(pl.Datetime),
        "null": [None] * 60,
        "decimal": pl.Series(range(60)).cast(pl.Decimal(10, 2)),
        "infinite": [float("inf")] * 60,
    }
    for name, column in odd.items():
        raw = io.BytesIO()
        frame.with_columns(pl.Series("age", column)).write_parquet(raw)
        yield Table(f"Parquet with {name}", "t.parquet", raw.getvalue())
    yield Table("Excel", "t.xlsx", b"PK\x03\x04" + bytes(200))
    yield Table("no ending", "t", text(rows))
    yield Table("text", "t.txt", text(rows))
    yield Table("an NPZ file that is a table", "t.npz", text(rows))
    for name, arrays in {
        "one array": {"x": np.zeros((60, 3))},
        "lengths": {"x": np.zeros((60, 3)), "y": np.zeros(59)},
        "objects": {"x": np.array([[1], "x"], dtype=object), "y": np.zeros(2)},
        "nothing": {},
        "words": {"x": np.array([["a", "b"]] * 60), "y": np.arange(60) % 2},
        "gaps": {"x": np.full((60, 2), np.nan), "y": np.arange(60) % 2},
        "no clients": {"x": np.zeros((60, 2)), "y": np.arange(60) % 2},
    }.items():
        raw = io.BytesIO()
        np.savez(raw, **arrays)
        yield Table(f"NPZ with {name}", "t.npz", raw.getvalue())


def malformed() -> list[Table]:
    """All of them, always the same."""
    found = []
    for i, (name, change) in enumerate(CHANGES.items()):
        found.append(Table(name, "t.csv", change(good(random.Random(i)), random.Random(i))))
    found += compressed()
    draw, names = random.Random(5), list(CHANGES)
    while len(found) < 200:
        name, how = draw.choice(names), draw.choice(list(SETTINGS)[1:])
        seed = draw.randrange(1000)
        raw = CHANGES[name](good(random.Random(seed)), random.Random(seed))
        found.append(Table(f"{name}, {how}", "t.csv", raw, SETTINGS[how]))
    return found
