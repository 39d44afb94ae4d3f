"""A CSV, TSV (also gzipped) or Parquet file as a polars frame, its cells as they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unalike.errors import DataError, no_such
from unalike.federation.columns import Csv
from unalike.federation.readers.foreign import foreign
from unalike.federation.readers.lines import complaint

if TYPE_CHECKING:
    import polars as pl

AS_USUAL = Csv()
# What CSV files in the wild write for "missing", UCI's question mark among them.
NULLS = ["", "?", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"]
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def table_file(
    path: str | Path, csv: Csv = AS_USUAL, *, texts: Sequence[str] = ()
) -> "pl.DataFrame":
    """The file as a polars frame, with CSV's many spellings of "missing" read as such.

    ``texts`` are columns of a CSV file that are text even where they look like numbers.
    """
    import polars as pl

    path = Path(path)
    if not path.is_file():
        raise DataError(no_such("file", path))
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(f"'{path}' is not a table; its name must end in {', '.join(SUFFIXES)}.")
    if path.suffix.lower() == ".parquet":
        return _parquet(path)
    _refuse_encoding(csv.encoding)
    _refuse_commas(path, csv)
    try:
        if other := foreign(path, csv.encoding):
            raise DataError(f"'{path}' cannot be read as a table: {other}.")
        table = pl.read_csv(
            path,
            separator=csv.separates(path.name),
            null_values=[*NULLS, *csv.na_values],
            decimal_comma=csv.decimal == ",",
            encoding="utf8" if csv.encoding == "utf-8" else csv.encoding,
            infer_schema_length=None,
            schema_overrides=dict.fromkeys(texts, pl.String),
        )
        bare = table.width == 1 or table.height == 0
        wrong = complaint(path, csv) if bare else _twice(table.columns)
    except UnicodeDecodeError as error:
        wrong = f"it is not written in {csv.encoding} ({error.reason}); set data.encoding"
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        wrong = complaint(path, csv) or _undecoded(reason) or reason
    if wrong:
        raise DataError(f"'{path}' cannot be read as a table: {wrong}.")
    return table


def _parquet(path: Path) -> "pl.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(f"'{path}' is not a whole Parquet file: {reason}.") from None


def _refuse_encoding(name: str) -> None:
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise DataError(
            f"there is no encoding '{name}'; data.encoding may be utf-8, latin-1, cp1252 or "
            "another that Python knows."
        ) from None


def _refuse_commas(path: Path, csv: Csv) -> None:
    if csv.decimal == csv.separates(path.name):
        raise DataError(
            f"commas cannot both separate the fields of '{path}' and be the decimal mark; set "
            "data.separator as well, for instance to ';'."
        )


def _undecoded(reason: str) -> str:
    """What to say of bytes that are no UTF-8; empty if it is something else."""
    if "utf-8" not in reason.lower():
        return ""
    return "it is not written in UTF-8; set data.encoding, for instance to 'latin-1'"


def _twice(columns: Sequence[str]) -> str:
    """What is wrong with a header that has a name twice, which polars renames; empty if none is."""
    for name in columns:
        first, mark, number = name.rpartition("_duplicated_")
        if mark and number.isdigit() and first in columns:
            return f"two columns are called '{first}'; rename one"
    return ""
