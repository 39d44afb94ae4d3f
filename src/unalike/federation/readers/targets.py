"""Targets that are numbers: read as such, and put into ranges that stand for classes.

A model learns the number itself. Where rows are split or counted by class (splits, partitioners,
label skew) a row belongs to one of up to ten ranges of the target, each with as many rows.
"""

from typing import Any, NamedTuple

import numpy as np

from unalike.errors import DataError
from unalike.federation.readers.rows import RowError

RANGES = 10
ENOUGH = 10  # rows that a range should have
SCORES = 20  # numbers with fractions that may still be classes, such as marks


class Measured(NamedTuple):
    """Numbers, the range of each, and what the ranges are called."""

    values: np.ndarray  # [n] float64
    ranges: np.ndarray  # [n] 0..R-1
    names: tuple[str, ...]


def looks_measured(values: Any) -> bool:
    """Whether targets are unmistakably numbers: fractions, and too many different ones to be marks.

    >>> looks_measured(np.arange(30) / 7), looks_measured(np.arange(30)), looks_measured(["a"])
    (True, False, False)
    """
    array = _array(values)
    if array is None or array.dtype.kind != "f":
        return False
    known = array[np.isfinite(array)]
    return bool((known != np.round(known)).any()) and len(np.unique(known)) > SCORES


def read_measured(values: Any) -> Measured:
    """Numbers to be predicted, with their ranges."""
    found = numbers(values)
    if len(found) and (found == found[0]).all():
        raise DataError(
            f"all {len(found)} values of the target are {found[0]:g}, so there is nothing to learn."
        )
    return Measured(found, *_ranges(found))


def numbers(values: Any, test: bool = False) -> np.ndarray:
    """Targets as a vector of finite numbers."""
    what = "the test targets" if test else "the targets"
    array = _array(values)
    if array is None:
        raise DataError(f"{what} of a regression must be one number for each row.")
    if array.dtype.kind == "O":
        gone = [value is None or value != value for value in array]
        if any(gone):
            raise RowError(f"{what} must not be missing: {{row}} has none.", gone.index(True), test)
        array = np.array(array.tolist())
    if array.dtype.kind not in "biuf":
        row = _first_text(array)
        raise RowError(
            f"{what} of a regression must be numbers, got '{array[row]}' in {{row}}.", row, test
        )
    found = array.astype(np.float64)
    odd = np.flatnonzero(~np.isfinite(found))
    if len(odd):
        raise RowError(
            f"{what} must not be missing or infinite: {{row}} has {found[odd[0]]}.",
            int(odd[0]),
            test,
        )
    return found


def _array(values: Any) -> np.ndarray | None:
    """As a vector; None if there are several values for a row."""
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    return array if array.ndim == 1 else None


def _first_text(array: np.ndarray) -> int:
    for row, value in enumerate(array):
        try:
            float(value)
        except (TypeError, ValueError):
            return row
    return 0


def shares(rows: int) -> np.ndarray:
    """The shares of all rows at which ranges end."""
    count = max(2, min(RANGES, rows // ENOUGH))
    return np.arange(1, count) / count


def _ranges(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Equally many rows in each, as far as equal numbers stay together."""
    edges = np.unique(np.quantile(values, shares(len(values)), method="lower"))
    _, codes = np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)
    ends = [(values[codes == c].min(), values[codes == c].max()) for c in range(codes.max() + 1)]
    names = tuple(f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}" for low, high in ends)
    if len(set(names)) < len(names):
        names = tuple(f"range {c + 1}: {name}" for c, name in enumerate(names))
    return codes.astype(np.int64), names
