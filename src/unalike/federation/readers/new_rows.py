"""Reads rows that a trained model has not seen, in the same way as its training rows.

Differences are reported: missing columns, text that no training row had, gaps that are filled.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unalike.errors import DataError, warn_once
from unalike.federation.columns import Column, Reading
from unalike.federation.features import Features
from unalike.federation.readers.arrays import Layout, features
from unalike.federation.readers.encoding import MISSING, expect
from unalike.federation.readers.extras import require
from unalike.federation.readers.frames import as_polars
from unalike.federation.readers.images import image_files, open_image, stack
from unalike.federation.readers.npz import load_npz
from unalike.federation.readers.table_file import table_file

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor

SHOWN = 3  # texts that a message names


class NewRows(NamedTuple):
    """Rows, and what the file says of them beside their features."""

    x: "Tensor"  # not yet filled and scaled
    clients: np.ndarray | None = None  # the client of each row as text, where the data name it
    labels: np.ndarray | None = None  # as text, where the data have them
    names: tuple[str, ...] = ()  # of files, where each row is one


def new_rows(source: Any, reading: Reading, learned: Features, shape: tuple[int, ...]) -> NewRows:
    """Rows from a file, a folder of images, a data frame or an array."""
    if isinstance(source, str | Path):
        rows = _file(Path(source).expanduser(), reading, learned, shape)
    elif hasattr(source, "collect_schema") or hasattr(source, "columns"):  # polars, pandas
        rows = _table(as_polars(source), reading, learned)
    elif learned.columns:
        rows = NewRows(_array(source, learned.columns))
    else:
        rows = NewRows(_inputs(source, reading, shape))
    if tuple(rows.x.shape[1:]) != shape:
        raise DataError(
            f"the rows have shape {tuple(rows.x.shape[1:])}, but the model was trained on rows of "
            f"shape {shape}."
        )
    return rows


def _file(path: Path, reading: Reading, learned: Features, shape: tuple[int, ...]) -> NewRows:
    if path.is_dir():
        return _images(path, reading)
    if path.suffix.lower() == ".npz":
        return _npz(path, reading, learned, shape)
    texts = [c.name for c in learned.columns if c.role != "number"]
    return _table(table_file(path, reading.csv, texts=texts), reading, learned)


def _npz(path: Path, reading: Reading, learned: Features, shape: tuple[int, ...]) -> NewRows:
    arrays = load_npz(path)
    key = next((k for k in ("x", "X", "x_test", "X_test", "test_images") if k in arrays), None)
    if key is None:
        found = ", ".join(sorted(arrays)) or "none"
        raise DataError(f"'{path}' must hold the rows under x; its keys are {found}.")
    y = {"x": "y", "X": "y", "x_test": "y_test", "X_test": "y_test", "test_images": "test_labels"}
    rows = arrays[key]
    x = _array(rows, learned.columns) if learned.columns else _inputs(rows, reading, shape)
    clients, labels = arrays.get(reading.client), arrays.get(y[key])
    return NewRows(
        x,
        None if clients is None or len(clients) != len(x) else clients.astype(str),
        None if labels is None else labels.reshape(-1).astype(str),
    )


def _images(folder: Path, reading: Reading) -> NewRows:
    """Every image of a folder and of those in it; the folder an image lies in is not looked at."""
    pillow = require("PIL.Image", "image", "reading images")
    files = image_files(folder)
    if not files:
        raise DataError(f"'{folder}' holds no images.")
    pixels = stack(((open_image(pillow, path), str(path)) for path in files), reading.size)
    names = tuple(str(path.relative_to(folder)) for path in files)
    return NewRows(features(pixels, "NHWC"), names=names)


def _inputs(x: Any, reading: Reading, shape: tuple[int, ...]) -> "Tensor":
    """Arrays laid out as the training rows were, or as the network takes them."""
    layout: Layout = reading.layout  # type: ignore[assignment]
    if len(shape) == 3 and layout != "features" and tuple(getattr(x, "shape", ()))[1:] == shape:
        layout = "NCHW"
    elif reading.form == "images":
        layout = "NHWC"
    return features(x, layout)


def _array(x: Any, columns: Sequence[Column]) -> "Tensor":
    """A table as plain numbers, in the order of its columns; only if none of them is text."""
    text = next((c.name for c in columns if c.role != "number"), None)
    if text is not None:
        raise DataError(
            f"the model was trained on a table with the text column '{text}'; give a data frame or "
            "a table file with its columns."
        )
    return features(x, "features", gaps=True)


def _table(table: "pl.DataFrame", reading: Reading, learned: Features) -> NewRows:
    import torch

    if not learned.columns:
        return _plain_table(table, reading)
    if not len(table):
        raise DataError("the table has no rows.")
    parts = []
    for column in learned.columns:
        if column.role == "protected":
            parts.append(np.zeros((len(table), 1), np.float32))
            continue
        if column.name not in table.columns:
            expect(table, column.name, "the model was trained with it; ")
        one = table[column.name]
        numbers = column.role == "number"
        parts.append(_numbers(one, reading.gaps) if numbers else _levels(one, column))
    x = torch.from_numpy(np.concatenate(parts, axis=1))
    return NewRows(x, _aside(table, reading.client), _aside(table, reading.label))


def _plain_table(table: "pl.DataFrame", reading: Reading) -> NewRows:
    """A table for a model that was trained on arrays: its columns in their order."""
    kept = [c for c in table.columns if c not in (reading.client, reading.label or "label")]
    odd = next((c for c in kept if not table[c].dtype.is_numeric()), None)
    if odd is not None:
        raise DataError(f"column '{odd}' is not numbers, and the model was trained on numbers.")
    return NewRows(features(table.select(kept).to_numpy(), "features"))


def _aside(table: "pl.DataFrame", name: str) -> np.ndarray | None:
    """A column as text, if the table has it without gaps."""
    import polars as pl

    if not name or name not in table.columns or table[name].null_count():
        return None
    return table[name].cast(pl.String).to_numpy().astype(str)


def _numbers(series: "pl.Series", gaps: bool) -> np.ndarray:
    import polars as pl

    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        numbers = series.cast(pl.String).cast(pl.Float64, strict=False)
        slips = numbers.is_null() & series.is_not_null()
        if slips.any():
            row = slips.arg_max() or 0
            raise DataError(
                f"column '{series.name}' holds numbers, but row {row} (counted from 0) has "
                f"'{series[row]}'; correct it or empty the cell."
            )
        series = numbers
    series = series.cast(pl.Float64).fill_nan(None)
    if series.is_infinite().any():
        raise DataError(f"column '{series.name}' has infinite values; remove or replace them.")
    gone = series.null_count()
    if gone and not gaps:
        warn_once(
            f"column '{series.name}' is missing in {gone} of {len(series)} rows; they get the "
            "median of the training rows."
        )
    return series.to_numpy().astype(np.float32)[:, None]


def _levels(series: "pl.Series", column: Column) -> np.ndarray:
    """One column for each level that training rows had; anything else is zero in all of them."""
    import polars as pl

    if series.dtype.is_float():
        series = series.fill_nan(None)
    texts = series.cast(pl.String).fill_null(MISSING).to_numpy().astype(str)
    found, of = np.unique(texts, return_inverse=True)
    texts = np.array([_level(text, {*column.levels, column.base}) for text in found.tolist()])[of]
    hot = (texts[:, None] == np.array(column.levels, dtype=str)[None, :]).astype(np.float32)
    strange = ~hot.any(axis=1) & (texts != column.base)
    gone = strange & (texts == MISSING)
    if column.role == "fixed":
        hot[gone] = np.nan
    unseen = np.unique(texts[strange & ~gone])
    if len(unseen):
        named = ", ".join(f"'{text}'" for text in unseen[:SHOWN])
        more = f" and {len(unseen) - SHOWN} more" if len(unseen) > SHOWN else ""
        warn_once(
            f"column '{column.name}' has {named}{more}, which no training row had, in "
            f"{int((strange & ~gone).sum())} of {len(texts)} rows; they count as no known level."
        )
    if gone.any():
        filled = (
            "get the most frequent level" if column.role == "fixed" else "count as no known level"
        )
        warn_once(
            f"column '{column.name}' is missing in {int(gone.sum())} of {len(texts)} rows; they "
            f"{filled}."
        )
    return hot


def _level(text: str, known: Collection[str]) -> str:
    """The text, or 1 for 1.0 if that is a level: gaps make a column of whole numbers fractional."""
    if text in known:
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    whole = str(int(value)) if value.is_integer() else text
    return whole if whole in known else text
