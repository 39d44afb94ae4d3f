"""Reads tables: pandas or polars data frames, CSV and Parquet files.

One column is the label, one may name the client, the others are features: numbers and truth values
as they are, text and categories as one column for each level (one-hot, levels sorted). Which levels
stay, what fills a gap and how columns are scaled is settled when training rows are known.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unalike.errors import DataError
from unalike.federation.columns import Csv, Normalise, Pending
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.encoding import attribute, encoded, expect, refuse_gaps
from unalike.federation.readers.labels import code_clients
from unalike.federation.readers.lines import line_of
from unalike.federation.readers.rows import Where, counted, placed
from unalike.federation.readers.table_file import AS_USUAL, table_file
from unalike.federation.readers.traps import (
    warn_of_features,
    warn_of_labels,
    warn_of_rare_classes,
    warn_of_spellings,
)

if TYPE_CHECKING:
    import polars as pl

    from unalike.federation.data import Examples
    from unalike.kinds import Kind

Missing = Literal["error", "impute"]


def from_frame(
    frame: Any,
    label: str = "label",
    client: str = "",
    *,
    test: Any = None,
    drop: Sequence[str] = (),
    missing: Missing = "error",
    normalise: Normalise = "auto",
    drop_first: bool = False,
    classes: int | None = None,
    class_names: tuple[str, ...] = (),
    kind: "Kind | None" = None,
    protected: Sequence[str] = (),
    name: str = "table",
    where: Where = counted,
    split: str = "",
    together: str = "",
) -> "Examples":
    """Examples from a data frame.

    What can be read but looks like a mistake (a number column with one text, a column that names
    the rows, a label that is a measurement) is read with a warning.

    Args:
        frame: A pandas or polars data frame.
        label: The column to predict.
        client: The column that names each row's natural client; it is not a feature.
        test: A frame with the same columns, the dataset's own test set.
        drop: Columns to leave out.
        missing: "impute" fills numbers with the median of the training rows (in ``federate``; until
            then they are NaN) and gives text a level "(missing)"; "error" refuses the table. Labels
            and clients are never filled.
        normalise: Lets ``federate`` scale columns that are not zeros and ones to mean 0 and
            variance 1, of the training rows of all clients ("pooled", and so "auto"), of each
            client's own ("client"), or not at all ("none").
        drop_first: Leaves out the first level of each text column, as regression textbooks do.
        classes: See ``from_arrays``.
        class_names: See ``from_arrays``.
        kind: See ``from_arrays``: "regression" learns the numbers of the label.
        protected: Columns with two values that no network sees and that an adversary tries to
            guess.
        name: Name of the dataset in reports.
        where: How messages name a row.
        split: The column that says train, validation or test; rows with an empty cell are split at
            random.
        together: Rows with the same value in this column (such as a patient) stay on one side of
            the split.
    """
    train = as_polars(frame)
    for column in filter(None, [label, client, split, together, *drop, *protected]):
        expect(train, column)
    if label in drop:
        raise DataError(f"'{label}' is the label, so it cannot be dropped; take it out of drop.")
    if label == client:
        raise DataError(f"'{label}' cannot be both the label and the client; name two columns.")
    rows = len(train)
    if rows == 0:
        raise DataError("the table has no rows.")
    table = train if test is None else _stack(train, as_polars(test))
    aside = {label, client, split, together, *drop, *protected}
    used = [column for column in table.columns if column not in aside]
    if not used:
        raise DataError(f"the table has no feature besides its label '{label}'.")
    with placed(where):
        if missing == "error":
            refuse_gaps(table, used, rows)
        columns = [encoded(table[column], rows) for column in used]
        columns += [attribute(table[column]) for column in protected]
        x = np.concatenate([values for _, values in columns], axis=1)
        y = _targets(table[label], kind)
        examples = from_arrays(
            x[:rows],
            y[:rows],
            _names(train[client]) if client else None,
            test=None if test is None else (x[rows:], y[rows:]),
            classes=classes,
            class_names=class_names,
            kind=kind,
            layout="features",
            name=name,
            pending=Pending(
                tuple(column for column, _ in columns),
                drop_first,
                "pooled" if normalise == "auto" else normalise,
            ),
        )
    warn_of_features(train, used, where)
    if classes is None and examples.ranges is None:
        warn_of_labels(train[label])
        warn_of_rare_classes(train[label])
        warn_of_spellings(train[label], "classes")
    if client:
        warn_of_spellings(train[client], "clients")
    filled = missing == "impute"
    reading = examples.reading._replace(form="table", label=label, client=client, gaps=filled)
    units = code_clients(train[together].to_numpy()).codes if together else None
    part = _given_parts(train[split]) if split else None
    return replace(examples, reading=reading, part=part, units=units, protected=tuple(protected))


def _given_parts(column: "pl.Series") -> np.ndarray:
    import polars as pl

    from unalike.federation.given import parts_of

    return parts_of(column.cast(pl.String).fill_null("").to_numpy(), column.name)


def read_table(
    path: str | Path,
    label: str = "label",
    client: str = "",
    *,
    test_path: str | Path = "",
    csv: Csv = AS_USUAL,
    **options: Any,
) -> "Examples":
    """Examples from a CSV, TSV (also gzipped) or Parquet file.

    ``test_path`` names the file of the dataset's own test set; options as in ``from_frame``.
    """
    aside = {label, client, options.get("split", ""), options.get("together", "")}
    test = _spelled_out(table_file(test_path, csv), aside) if test_path else None

    def where(row: int, of_test: bool) -> str:
        file = Path(test_path if of_test else path)
        if file.suffix.lower() == ".parquet":
            return f"{counted(row, False)} of '{file}'"
        return f"line {line_of(file, row, csv)} of '{file}'"

    given = {"name": Path(path).stem, "test": test, "where": where, **options}
    table = _spelled_out(table_file(path, csv), aside)
    examples = from_frame(table, label, client, **given)
    return replace(examples, reading=examples.reading._replace(csv=csv))


def _spelled_out(table: "pl.DataFrame", aside: set[str]) -> "pl.DataFrame":
    """Text columns that hold nothing but numbers as numbers: Infinity, NAN and -nan are such."""
    import polars as pl

    for name in table.columns:
        column = table[name]
        if name not in aside and column.dtype == pl.String:
            numbers = column.cast(pl.Float64, strict=False)
            if numbers.null_count() == column.null_count() < len(column):
                table = table.with_columns(numbers)
    return table


def _targets(column: "pl.Series", kind: "Kind | None") -> np.ndarray:
    """What is predicted, as NumPy has it."""
    import polars as pl

    if kind == "regression" and column.dtype.is_numeric():
        return column.cast(pl.Float64).to_numpy()
    return _names(column)


def _names(column: "pl.Series") -> np.ndarray:
    """Labels or clients as NumPy has them; whole numbers beyond 64 bits as text."""
    import polars as pl

    if column.dtype == pl.Int128 or column.dtype.is_decimal():
        column = column.cast(pl.String)
    return column.to_numpy()


def as_polars(frame: Any) -> "pl.DataFrame":
    """A polars frame of a polars or pandas one."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
        raise DataError(
            f"expected a pandas or polars data frame, got {type(frame).__name__}; use "
            "from_arrays to read arrays."
        )
    names = [str(column) for column in frame.columns]
    if len(set(names)) < len(names):
        raise DataError("the table has two columns of the same name; rename one.")
    return pl.DataFrame(
        [_pandas_series(name, frame.iloc[:, place]) for place, name in enumerate(names)]
    )


def _pandas_series(name: str, series: Any) -> "pl.Series":
    # Not polars.from_pandas, which needs pyarrow for text.
    import polars as pl

    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        return pl.Series(name, series.to_numpy())
    missing = series.isna().to_numpy()
    values = [None if gone else value for value, gone in zip(series, missing, strict=True)]
    try:
        return pl.Series(name, values)
    except (TypeError, pl.exceptions.PolarsError):
        raise DataError(
            f"column '{name}' mixes text and numbers; make all of it one or the other."
        ) from None


def _stack(train: "pl.DataFrame", test: "pl.DataFrame") -> "pl.DataFrame":
    """Both sets in one frame, so that they share the levels of every text column."""
    import polars as pl

    for column in train.columns:
        expect(test, column)
        one, other = train[column].dtype, test[column].dtype
        # Relaxed stacking would turn numbers into text, and so into one level for each number.
        mixed = one.is_numeric() != other.is_numeric() or one.is_temporal() != other.is_temporal()
        if mixed and pl.Null not in (one, other):
            raise DataError(
                f"column '{column}' is {one} in the training table but {other} in the test table; "
                "they must agree."
            )
    return pl.concat([train, test.select(train.columns)], how="vertical_relaxed")
