"""Cells from values: the number as it is, and as it is written."""

import math

from unalike.tables import format as written
from unalike.tables.model import Cell


def words(text: str, mark: str = "") -> Cell:
    """A name or a word."""
    return Cell(text, text, mark=mark)


def score(value: float | None, metric: str, statistic: str = "mean") -> Cell:
    """A value of a metric, or of a statistic of it over clients."""
    return Cell(_known(value), written.number(value, metric, statistic))


def decimal(value: float | None, places: int) -> Cell:
    """A number without a unit."""
    return Cell(_known(value), written.decimal(value, places))


def size(amount: float | None) -> Cell:
    """A number of bytes."""
    return Cell(_known(amount), written.size(amount))


def count(amount: float | None) -> Cell:
    """How many there are, to three digits."""
    return Cell(_known(amount), written.count(amount))


def whole(amount: float | None) -> Cell:
    """How many there are, exactly."""
    return Cell(_known(amount), written.whole(amount))


def of(part: int, total: int) -> Cell:
    """How many of all."""
    return Cell(part, f"{part}/{total}")


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
