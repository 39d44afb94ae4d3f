"""Columns of a table that can be read, but hardly as they were meant."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from unalike.errors import warn_once
from unalike.federation.readers.rows import Where

if TYPE_CHECKING:
    import polars as pl

MOSTLY = 0.9  # share of numbers from which text looks like a number column with a slip
MANY = 50  # texts or classes
FEW = 5  # rows of a class
SCORES = 20  # numbers that may well be classes, such as marks


def warn_of_features(table: "pl.DataFrame", columns: Iterable[str], where: Where) -> None:
    """Say which text columns look like numbers with a slip, and which like names of rows."""
    import polars as pl

    for name in columns:
        column = table[name]
        if column.dtype != pl.String:
            continue
        levels, slip = column.drop_nulls().n_unique(), _slip(column)
        if slip is not None:
            warn_once(
                f"column '{name}' is taken as text, a feature for each of its {levels} values, "
                f"because '{column[slip]}' in {where(slip, False)} is not a number; correct it, or "
                "empty the cell and set data.missing = 'impute'."
            )
        elif levels > MANY and 2 * levels > len(column):
            warn_once(
                f"column '{name}' has {levels} different texts in {len(column)} rows, and each "
                f"becomes a feature; if it only names the rows, set data.drop = ['{name}']."
            )


def warn_of_labels(label: "pl.Series") -> None:
    """Say if the label looks like a measurement or a name, as only classes are learned."""
    levels = label.n_unique()
    scarce = levels > MANY and len(label) < FEW * levels
    # Classes that are numbers mostly count from 0 or 1.
    measured = label.dtype.is_numeric() and levels > SCORES and label.min() not in (0, 1)
    if scarce or measured:
        warn_once(
            f"the label '{label.name}' has {levels} different values in {len(label)} rows, and "
            "each becomes a class; measurements are not learned as such, so name a column of "
            "classes by data.label."
        )


def _slip(column: "pl.Series") -> int | None:
    """The first row that is not a number in a column of numbers; None in any other column."""
    import polars as pl

    slips = column.is_not_null() & column.cast(pl.Float64, strict=False).is_null()
    bare = column.drop_nulls().str.strip_chars().cast(pl.Float64, strict=False)
    if not slips.any() or bare.null_count() > (1 - MOSTLY) * len(bare):
        return None
    return slips.arg_max()
