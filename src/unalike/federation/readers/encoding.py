"""Columns of a table as columns of numbers: what they may hold, and which levels text has."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from unalike.errors import DataError
from unalike.federation.columns import Column
from unalike.federation.readers.rows import RowError

if TYPE_CHECKING:
    import polars as pl


MAX_LEVELS = 1000
SHOWN, LONG = 30, 60  # columns that a message names, and letters of each
MISSING = "(missing)"  # the level of text that is not there


def expect(table: "pl.DataFrame", column: str, why: str = "") -> None:
    """Say so if a table lacks a column, and which one may be meant."""
    if column not in table.columns:
        near = get_close_matches(column, table.columns, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise DataError(f"no column '{column}': {why}{hint}it has {_listed(table.columns)}.")


def refuse_gaps(table: "pl.DataFrame", used: Sequence[str], train_rows: int) -> None:
    """Name all columns with gaps at once, so that one change of the settings is enough."""
    blank = {name: table[name].is_null() for name in used}
    for name in used:
        if table[name].dtype.is_float():
            blank[name] |= table[name].is_nan().fill_null(False)
    holed = [name for name in used if blank[name].any() and not blank[name].all()]
    if not holed:
        return
    first, others = holed[0], holed[1:]
    also = f", and others have gaps too: {_listed(others)}" if others else ""
    drop = ", ".join(f"'{name}'" for name in holed)
    raise _at(
        blank[first],
        train_rows,
        f"column '{first}' is missing in {blank[first].sum()} of {len(table)} rows, first in "
        f"{{row}}{also}; set data.missing = 'impute' or data.drop = [{drop}].",
    )


def encoded(series: "pl.Series", train_rows: int) -> tuple[Column, np.ndarray]:
    """One table column as one or more feature columns."""
    import polars as pl

    kind = series.dtype
    if kind.is_numeric():
        series = series.cast(pl.Float64).fill_nan(None)
    gone = series.null_count()
    if gone == len(series):
        raise DataError(f"column '{series.name}' is empty; drop it.")
    if kind.is_numeric() or kind == pl.Boolean:
        return Column(series.name), _numbers(series.cast(pl.Float64), train_rows)
    if kind in (pl.String, pl.Categorical, pl.Enum):
        levels, hot = _one_hot(series.cast(pl.String).fill_null(MISSING))
        return Column(series.name, len(levels), "levels", levels), hot
    raise DataError(
        f"column '{series.name}' holds {kind}, which is neither number nor text; "
        "drop it or turn it into numbers."
    )


def attribute(series: "pl.Series") -> tuple[Column, np.ndarray]:
    """A protected column: 1 for the second of its two values, in their order."""
    values = series.unique().sort().to_list()
    if len(values) != 2 or None in values:
        raise DataError(
            f"column '{series.name}' should be protected but has {len(values)} different values, "
            "counting missing ones; it must have two."
        )
    return Column(series.name, 1, "protected"), (series == values[1]).to_numpy().astype(np.float32)[
        :, None
    ]


def _numbers(series: "pl.Series", train_rows: int) -> np.ndarray:
    infinite = series.is_infinite().fill_null(False)
    if infinite.any():
        raise _at(
            infinite,
            train_rows,
            f"column '{series.name}' is infinite in {{row}}; remove or replace such values.",
        )
    large = (series.abs() > float(np.finfo(np.float32).max)).fill_null(False)
    if large.any():
        raise _at(
            large,
            train_rows,
            f"column '{series.name}' is {series[large.arg_max() or 0]} in {{row}}, larger than a "
            "32-bit number can be; scale the column.",
        )
    if series[:train_rows].null_count() == train_rows:
        raise DataError(f"column '{series.name}' is empty in the training table; drop it.")
    return series.to_numpy().astype(np.float32)[:, None]


def _at(bad: "pl.Series", train_rows: int, sentence: str) -> RowError:
    """The error for the first row that is bad; the test set's rows come after ``train_rows``."""
    row = bad.arg_max() or 0
    test = row >= train_rows
    return RowError(sentence, row - train_rows if test else row, test)


def _one_hot(series: "pl.Series") -> tuple[tuple[str, ...], np.ndarray]:
    levels, codes = np.unique(series.to_numpy().astype(str), return_inverse=True)
    if len(levels) > MAX_LEVELS:
        raise DataError(
            f"column '{series.name}' has {len(levels)} different texts, more than {MAX_LEVELS}; "
            "drop it or turn it into numbers."
        )
    hot = np.zeros((len(codes), len(levels)), np.float32)
    hot[np.arange(len(codes)), codes] = 1
    return tuple(levels.tolist()), hot


def _listed(columns: Sequence[str]) -> str:
    """Names of columns, as many and as much of each as a sentence can hold."""
    shown = [name if len(name) <= LONG else f"{name[:LONG]}..." for name in columns[:SHOWN]]
    more = f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else ""
    return ", ".join(shown) + more
