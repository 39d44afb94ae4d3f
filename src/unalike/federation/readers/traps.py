"""Columns of a table that can be read, but probably not as they were meant."""

import re
import unicodedata
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
LONG = 80  # letters of a name that a message shows
ENOUGH = 20  # rows from which on a pattern is hardly chance
_DATE = r"^\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})\b"
_WHOSE = re.compile(
    r"(^|[_. -])(patient|subject|person|participant|mrn)s?([_. -]?(id|no|nr|num|number|code))?$",
    re.IGNORECASE,
)

_DECORATED = r"^\s*[$€£¥<>~±]*\s*[-+]?\d+([.,' ]\d+)*\s*(%|[$€£¥]|[a-zµ°/]{1,12})?\s*$"


def warn_of_features(table: "pl.DataFrame", columns: Iterable[str], where: Where) -> None:
    """Say which text columns look like numbers with a slip, and which like names of rows."""
    import polars as pl

    columns = list(columns)
    _warn_of_copies(table, columns)
    for name in columns:
        column = table[name]
        if column.n_unique() == 1 and len(column) >= ENOUGH:
            warn_once(
                f"column '{name}' is the same in all {len(column)} rows, so nothing can be learned "
                f"from it; set data.drop = ['{name}']."
            )
        elif column.dtype.is_integer() and _counts_rows(column):
            warn_once(
                f"column '{name}' counts the rows, and a model may learn it by heart; set "
                f"data.drop = ['{name}'] unless the order means something."
            )
        if _WHOSE.search(name) and MANY < column.n_unique() < len(column):
            warn_once(
                f"column '{name}' becomes a feature, and rows that share a value of it may be on "
                "both sides of the split; if it identifies the rows' owner, set data.together = "
                f"'{name}'."
            )
            continue
        if column.dtype != pl.String:
            continue
        if _dates(column):
            warn_once(
                f"column '{name}' holds dates as text, and each becomes a feature; turn them into "
                f"numbers, such as days, or set data.drop = ['{name}']."
            )
            continue
        levels, slip = column.drop_nulls().n_unique(), _slip(column)
        if (blank := _blank(column)) is not None:
            warn_once(
                f"column '{name}' is taken as text, a feature for each of its {levels} values, "
                f"because of '{blank}' among its numbers; if that means missing, set "
                f"data.na_values = ['{blank}'] and data.missing = 'impute'."
            )
        elif slip is not None:
            warn_once(
                f"column '{name}' is taken as text, a feature for each of its {levels} values, "
                f"because '{column[slip]}' in {where(slip, False)} is not a number; correct it, or "
                "empty the cell and set data.missing = 'impute'."
            )
        elif (comma := _decimal_comma(column)) is not None:
            warn_once(
                f"column '{name}' holds numbers with a decimal comma, such as '{comma}', and each "
                "becomes a feature; set data.decimal = ',' if no comma separates fields, or write "
                "them with a decimal point."
            )
        elif _decorated(column):
            warn_once(
                f"column '{name}' holds numbers with something around them, such as "
                f"'{column.drop_nulls()[0]}', and each becomes a feature; write plain numbers."
            )
        elif levels > MANY and 2 * levels > len(column):
            warn_once(
                f"column '{name}' has {levels} different texts in {len(column)} rows, and each "
                f"becomes a feature; if it only names the rows, set data.drop = ['{name}']."
            )
        elif levels <= MANY:
            warn_of_spellings(column, "texts", f" in column '{name}'")


def warn_of_labels(label: "pl.Series") -> None:
    """Say if the label looks like a measurement or a name, although its values become classes."""
    levels = label.n_unique()
    scarce = levels > MANY and len(label) < FEW * levels
    # Classes that are numbers mostly count from 0 or 1.
    measured = label.dtype.is_numeric() and levels > SCORES and label.min() not in (0, 1)
    if scarce or measured:
        warn_once(
            f"the label '{label.name}' has {levels} different values in {len(label)} rows, and "
            "each becomes a class; set data.task = 'regression' to predict the number itself, "
            "or set data.label to a column of classes."
        )


def warn_of_rare_classes(label: "pl.Series") -> None:
    """Name classes with a single row: it trains or it tests, but not both."""
    counts = label.value_counts()
    rare = counts.filter(counts["count"] == 1)[label.name].sort().to_list()
    if rare and len(label) >= ENOUGH:
        more = f" and {len(rare) - 1} more" if len(rare) > 1 else ""
        warn_once(
            f"the class '{shown(rare[0])}'{more} occurs in a single row, which either trains or "
            "tests; merge it with another class or leave the row out."
        )


def warn_of_spellings(column: "pl.Series", what: str, where: str = "") -> None:
    """Name two classes, clients or levels that look alike: capitals, spaces, invisible signs."""
    import polars as pl

    if column.dtype != pl.String:
        return
    seen: dict[str, str] = {}
    for name in column.drop_nulls().unique().sort():
        first = seen.setdefault(_look(name), name)
        if first != name:
            how = "capitals or spaces" if _bare(first) == _bare(name) else "invisible characters"
            warn_once(
                f"the {what} '{shown(first)}' and '{shown(name)}'{where} differ only in {how} and "
                "count as two; spell them the same way if they are one."
            )
            return


def _bare(name: str) -> str:
    return " ".join(name.lower().split())


def _look(name: str) -> str:
    """What is seen of a name: accents put together, signs without a width left out."""
    plain = unicodedata.normalize("NFKC", name)
    return _bare("".join(c for c in plain if unicodedata.category(c) != "Cf"))


def shown(name: object) -> str:
    """A name in a message, which may be as long as a novel."""
    text = str(name)
    return text if len(text) <= LONG else f"{text[:LONG]}..."


def _warn_of_copies(table: "pl.DataFrame", columns: list[str]) -> None:
    """Say which columns are the same as one before them."""
    seen: dict[tuple[str, int], str] = {}
    for name in columns:
        column = table[name]
        key = str(column.dtype), int(column.hash(seed=0).sum() or 0)
        first = seen.setdefault(key, name)
        if first != name and len(column) >= ENOUGH and column.equals(table[first]):
            warn_once(
                f"columns '{first}' and '{name}' are the same in all rows; set "
                f"data.drop = ['{name}']."
            )


def _counts_rows(column: "pl.Series") -> bool:
    steps = column.diff().drop_nulls()
    whole = len(column) >= ENOUGH and column.null_count() == 0
    return whole and bool((steps == 1).all())


def _dates(column: "pl.Series") -> bool:
    present = column.drop_nulls()
    share = present.str.contains(_DATE).mean() if len(present) else None
    return isinstance(share, float) and share >= MOSTLY


def _slip(column: "pl.Series") -> int | None:
    """The first row that is not a number in a column of numbers; None in any other column."""
    import polars as pl

    slips = column.is_not_null() & column.cast(pl.Float64, strict=False).is_null()
    bare = column.drop_nulls().str.strip_chars().cast(pl.Float64, strict=False)
    if not slips.any() or bare.null_count() > (1 - MOSTLY) * len(bare):
        return None
    return slips.arg_max()


def _blank(column: "pl.Series") -> str | None:
    """The one text that stands again and again in a column of numbers; None in any other column."""
    import polars as pl

    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    words = column.filter(column.is_not_null() & numbers.is_null())
    if len(words) < 2 or words.n_unique() > 1 or numbers.n_unique() <= FEW:
        return None
    return str(words[0])


def _decimal_comma(column: "pl.Series") -> str | None:
    """A text such as '1,7' from a column of them; None where a comma may stand for thousands."""
    import polars as pl

    present = column.drop_nulls().str.strip_chars()
    commas = present.filter(present.str.contains(r"^[-+]?\d+,\d+$"))
    bare = present.cast(pl.Float64, strict=False).is_not_null().sum()
    fine = commas.filter(~commas.str.contains(r"^[-+]?\d{1,3},\d{3}$"))
    if not len(fine) or len(commas) + bare < MOSTLY * len(present):
        return None
    return str(fine[0])


def _decorated(column: "pl.Series") -> bool:
    """Whether texts are numbers with a currency, a unit, or a mark between thousands."""
    import polars as pl

    present = column.drop_nulls()
    if present.n_unique() <= FEW:
        return False
    bare = present.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()
    share = (present.str.contains(_DECORATED) & ~bare).mean()
    return isinstance(share, float) and share >= MOSTLY
