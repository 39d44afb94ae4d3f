"""Tables: CSV in every spelling, and Parquet of every type."""

import datetime
import decimal
import gzip
import io
import json
import random
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from breaking.corpus import EITHER, REFUSED, WORKS, Case, Content
from breaking.server import Limits, Outcome

KIND = "table"
Cell = Callable[[int], object]
HEAD = "a,b,y,c\n"
ROOMY = Limits(seconds=60, memory=8 << 30)


def table(
    rows: int = 60,
    a: Cell = lambda i: i % 7,
    b: Cell = lambda i: i * 1.5,
    y: Cell = lambda i: "ab"[i % 2],
    c: Cell = lambda i: i % 3,
    more: str = "",
) -> str:
    """A CSV file with two numbers, a label and a client in every row."""
    lines = (f"{a(i)},{b(i)},{y(i)},{c(i)}" for i in range(rows))
    return HEAD + "\n".join(lines) + (f"\n{more}" if more else "")


PLAIN = table()
ONCE = {i: i * 0.5 for i in range(60)}  # a column of numbers, in which one cell is put


def once(cell: str) -> str:
    return table(a=lambda i: cell if i == 7 else ONCE[i])


def names(*expected: str) -> Callable[[Path, Outcome], None]:
    """The clients of the run are these."""

    def check(place: Path, outcome: Outcome) -> None:
        found = json.loads((place / "out" / "skew.json").read_text())["names"]
        assert found == list(expected)

    return check


def columns(expected: int) -> Callable[[Path, Outcome], None]:
    """So many columns came of the table: what is a number was read as one."""

    def check(place: Path, outcome: Outcome) -> None:
        reading = json.loads((place / "out" / "features.json").read_text())
        assert reading["shape"]["features"] == [expected], reading["shape"]

    return check


def settings(name: str, label: str = "y", client: str = "c", more: str = "") -> str:
    owner = f', client = "{client}"' if client else ""
    return (
        f'rounds = 2\ndata = {{name = "files", path = "{name}", label = "{label}"{owner}{more}}}\n'
        'partition = "natural"\nmodel = "logistic"\nrun.folder = "out"\n'
    )


def case(
    name: str,
    want: str,
    content: Content,
    cause: str = "",
    file: str = "d.csv",
    command: str = "skew",
    check: Callable[[Path, Outcome], None] | None = None,
    **more: Any,
) -> Case:
    files = {"c.toml": settings(file, **more), file: content}
    return Case(KIND, name, want, [command, "c.toml"], files, cause, None, check, ROOMY)


def wide() -> bytes:
    """Twenty rows of twenty thousand numbers."""
    head = ",".join(f"f{i}" for i in range(20000)) + ",y,c\n"
    rows = ("1," * 20000 + f"{'ab'[i % 2]},{i % 3}" for i in range(20))
    return (head + "\n".join(rows)).encode()


long = [12345678901234567890, 12345678901234567891, 12345678901234567892]
dates = ["2020-01-01", "2020-01-02"]
CASES = [
    case("plain", WORKS, PLAIN, command="run", check=columns(2)),
    case("byte order mark", WORKS, b"\xef\xbb\xbf" + PLAIN.encode(), command="run"),
    case("semicolons", EITHER, PLAIN.replace(",", ";")),
    case("tabulators", EITHER, PLAIN.replace(",", "\t")),
    case("bars", EITHER, PLAIN.replace(",", "|")),
    case("decimal commas", EITHER, PLAIN.replace(",", ";").replace(".", ",")),
    case("line breaks in quotes", EITHER, table(b=lambda i: '"he said ""x""\nok"')),
    case("a quote that never ends", EITHER, PLAIN + '\n"1,2,a,0\n3,4,b,1'),
    case("a short line", EITHER, PLAIN + "\n1,2"),
    case("a long line", EITHER, PLAIN + "\n1,2,a,0,9,9"),
    case("empty", REFUSED, ""),
    case("a head alone", REFUSED, HEAD),
    case("one row", REFUSED, HEAD + "1,2,a,0"),
    case("line breaks alone", REFUSED, "\n\n\n"),
    case("zero bytes", REFUSED, HEAD.encode() + bytes(200)),
    case("UTF-16", REFUSED, PLAIN.encode("utf-16"), "wording"),
    case("Latin-1", REFUSED, table(y=lambda i: "éb"[i % 2]).encode("latin1")),
    case("noise", REFUSED, random.Random(1).randbytes(5000)),
    case("two columns of a name", EITHER, PLAIN.replace("a,b", "a,a", 1)),
    case("two columns of the label's name", EITHER, PLAIN.replace("a,b", "a,y", 1)),
    case("a column without a name", EITHER, PLAIN.replace("a,b", "a,", 1)),
    case("label and client are one", REFUSED, PLAIN, "wrong column", client="y"),
    case("no such label", REFUSED, PLAIN, label="nope"),
    case("no such client", REFUSED, PLAIN, client="nope"),
    case("a word among numbers", EITHER, PLAIN + "\nfoo,3,a,0"),
    case("inf", REFUSED, PLAIN + "\ninf,3,a,0"),
    case("-Infinity", REFUSED, PLAIN + "\n-Infinity,3,a,0", "infinity"),
    case("nan", REFUSED, PLAIN + "\nnan,3,a,0"),
    case("40 digits", EITHER, PLAIN + f"\n{'9' * 40},3,a,0"),
    case("too large for a float", REFUSED, PLAIN + "\n1e39,3,a,0"),
    case("too large for a float, run", REFUSED, PLAIN + "\n1e308,3,a,0", command="run"),
    case("the largest float", EITHER, PLAIN + "\n3e38,3,a,0", command="run"),
    case(
        "the largest float, standardised",
        EITHER,
        PLAIN + "\n3e38,3,a,0",
        command="run",
        more=', normalise = "standard"',
    ),
    case("too large for a double", REFUSED, PLAIN + "\n1e400,3,a,0"),
    case("labels and a half", REFUSED, table(y=lambda i: f"{i % 2}.5")),
    case("labels with a point", WORKS, table(y=lambda i: f"{i % 2}.0")),
    case("negative labels", REFUSED, table(y=lambda i: i % 2 - 1)),
    case("a label missing", REFUSED, PLAIN + "\n1,2,,0"),
    case("labels true and false", WORKS, table(y=lambda i: ["true", "false"][i % 2])),
    case("labels of dates", EITHER, table(y=lambda i: dates[i % 2])),
    case("labels of 1e300", REFUSED, table(y=lambda i: f"{1 + i % 2}e300")),
    case("labels beyond 63 bits", EITHER, table(y=lambda i: 2**63 + i % 2), "long identifiers"),
    case("labels of 20 digits", EITHER, table(y=lambda i: long[i % 2]), "long identifiers"),
    case("one label", REFUSED, table(y=lambda i: "a")),
    case("as many labels as rows", REFUSED, table(y=lambda i: f"l{i}")),
    case("labels NA", REFUSED, table(y=lambda i: ["NA", "b"][i % 2])),
    case("labels of HTML", WORKS, table(y=lambda i: ["<script>alert(1)", "</script>"][i % 2])),
    case("a client missing", REFUSED, PLAIN + "\n1,2,a,"),
    case("a client for each row", EITHER, table(c=lambda i: i), command="run"),
    case("clients and a half", REFUSED, table(c=lambda i: f"{i % 3}.5")),
    case("clients of 1e300", REFUSED, table(c=lambda i: f"{1 + i % 3}e300"), "merged clients"),
    case(
        "clients of 1e300, run",
        REFUSED,
        table(c=lambda i: f"{1 + i % 3}e300"),
        "merged clients",
        command="run",
    ),
    case(
        "clients beyond 63 bits",
        WORKS,
        table(c=lambda i: 2**63 + i % 3),
        "long identifiers",
        command="run",
        check=names(*(str(2**63 + i) for i in range(3))),
    ),
    case(
        "clients of 20 digits",
        WORKS,
        table(c=lambda i: long[i % 3]),
        "long identifiers",
        command="run",
        check=names(*map(str, long)),
    ),
    case("clients beyond 53 bits", EITHER, table(c=lambda i: f"{2**53 + i % 3}.0")),
    case("a client of 200,000 letters", EITHER, table(c=lambda i: "x" * 200000 + str(i % 3))),
    case("a thousand clients of a row", EITHER, table(1000, c=lambda i: f"k{i}")),
    case("constants", EITHER, table(a=lambda i: 5, b=lambda i: 5), command="run"),
    case(
        "constants, standardised",
        EITHER,
        table(a=lambda i: 5, b=lambda i: 5),
        command="run",
        more=', normalise = "standard"',
    ),
    case("a thousand words", REFUSED, table(1100, a=lambda i: f"t{i}")),
    case(
        "20,000 columns",
        EITHER,
        wide,
    ),
    case("every column dropped", REFUSED, PLAIN, more=', drop = ["a", "b"]'),
    case("the label dropped", REFUSED, PLAIN, "wrong column", more=', drop = ["y"]'),
    case("the client dropped", WORKS, PLAIN, more=', drop = ["c"]'),
    case("an image's size", REFUSED, PLAIN, more=", size = 3"),
    case("another ending", REFUSED, PLAIN, file="d.txt"),
    case("gzip that is none", EITHER, PLAIN, file="d.csv.gz"),
    case("another name", WORKS, PLAIN, file="e.csv"),
    case("gzip cut short", REFUSED, gzip.compress(PLAIN.encode())[:-20], file="d.csv.gz"),
    case(
        "gzip of 200 MB of zeros",
        REFUSED,
        lambda: gzip.compress(b"0" * 200_000_000),
        file="d.csv.gz",
    ),
    *(
        case(f"{text} once", REFUSED, once(text), "infinity", command="run")
        for text in ("-Infinity", "Infinity", "NAN", "-nan")
    ),
    *(case(f"{text} once", REFUSED, once(text), command="run") for text in ("-inf", "+inf")),
    *(
        case(f"{text!r} once", EITHER, once(text), command="run")
        for text in ("1_000", " 12", "１２", "1.234.5", "0x10", "3e38")
    ),
]

PARQUET: dict[str, dict[str, Any]] = {  # columns beside, or in place of, those of a plain table
    "good": {},
    "lists": {"l": [[1, 2]] * 60},
    "structs": {"s": [{"q": 1}] * 60},
    "dates": {"d": [datetime.date(2020, 1, 1)] * 60},
    "decimals": {"d": [decimal.Decimal("1.5")] * 60},
    "bytes": {"d": [b"xx"] * 60},
    "nothing": {"d": [None] * 60},
    "durations": {"t": [datetime.timedelta(1)] * 60},
    "numbers of 128 bits": {"n": [2**100] * 60},
    "categories": {"k": ["x"] * 60},
    "labels of lists": {"y": [[0]] * 60},
    "labels of structs": {"y": [{"u": i % 2} for i in range(60)]},
    "labels of bytes": {"y": [b"a" if i % 2 else b"b\xff" for i in range(60)]},
    "labels not a number": {"y": [float("nan")] + [float(i % 2) for i in range(59)]},
    "clients of dates": {"c": [datetime.date(2020, 1, 1 + i % 3) for i in range(60)]},
    "clients of lists": {"c": [[i % 3] for i in range(60)]},
}
ODD = {"labels of bytes": "odd bytes"}


@cache
def parquet(name: str) -> bytes:
    """A Parquet file; made in the test, since reading the corpus must not load polars."""
    import polars as pl

    plain = {"a": [float(i) for i in range(60)], "y": ["ab"[i % 2] for i in range(60)]}
    kinds: dict[str, Any] = {"n": pl.Int128, "k": pl.Categorical}
    held = {**plain, "c": [i % 3 for i in range(60)], **PARQUET[name]}
    raw = io.BytesIO()
    kept = {column: kind for column, kind in kinds.items() if column in held}
    pl.DataFrame(held, schema_overrides=kept).write_parquet(raw)
    return raw.getvalue()


def _changed(seed: int) -> Content:
    def make() -> bytes:
        draw, data = random.Random(seed), bytearray(parquet("good"))
        for _ in range(3):
            data[draw.randrange(4, len(data) - 8)] ^= draw.randrange(1, 256)
        return bytes(data)

    return make


def _parquet(name: str, want: str, content: Content, cause: str = "") -> Case:
    files = {"c.toml": settings("d.parquet"), "d.parquet": content}
    return Case("Parquet", name, want, ["skew", "c.toml"], files, cause, limits=ROOMY)


NOISE = random.Random(2)
CASES += [
    *(
        _parquet(
            name, WORKS if name == "good" else EITHER, partial(parquet, name), ODD.get(name, "")
        )
        for name in PARQUET
    ),
    *(_parquet(f"three bytes changed, {k}", EITHER, _changed(k)) for k in range(12)),
    _parquet("cut in half", REFUSED, lambda: parquet("good")[: len(parquet("good")) // 2]),
    _parquet("noise", REFUSED, NOISE.randbytes(3000), "wording"),
    _parquet("noise between marks", REFUSED, b"PAR1" + NOISE.randbytes(100) + b"PAR1"),
    _parquet("empty", REFUSED, b""),
]
