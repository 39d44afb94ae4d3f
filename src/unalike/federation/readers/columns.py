"""What is left to learn from a dataset before training: levels, fills and scales.

A reader cannot learn them, because it does not know which rows will train. It says here what is to
be done; ``federation/prepare.py`` does it when the rows are split. Until then a missing number is
NaN, and text has a column for each level that occurs anywhere.
"""

from typing import Literal, NamedTuple

Scale = Literal["none", "pooled", "client"]
Role = Literal["number", "levels", "fixed"]


class Column(NamedTuple):
    """One column of a table, which is one or more columns of ``x``."""

    name: str
    width: int = 1
    role: Role = "number"  # levels: those that training rows have; fixed: all that are given


class Pending(NamedTuple):
    """What is to be learned from training rows and done to all rows."""

    columns: tuple[Column, ...] = ()  # of a table, in the order of ``x``; empty: as they are
    drop_first: bool = False  # leave out the first level of each text column
    scale: Scale = "none"  # to mean 0 and variance 1, over all training rows or the client's own


NOTHING = Pending()
