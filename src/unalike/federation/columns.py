"""What is left to learn from a dataset before training: levels, fills and scales.

A reader cannot learn them, because it does not know which rows will train. It says here what is to
be done; ``federation/prepare.py`` does it when the rows are split. Until then a missing number is
NaN, and text has a column for each level that occurs anywhere.
"""

from typing import Literal, NamedTuple

Scale = Literal["none", "pooled", "client"]
Learn = Literal["auto", "regression"]  # auto: classes, unless labels are plainly measurements
Normalise = Literal["auto", "none", "pooled", "client"]  # auto: pooled for tables, none for images
Role = Literal["number", "levels", "fixed", "protected"]  # protected: no network sees it


class Column(NamedTuple):
    """One column of a table, which is one or more columns of ``x``."""

    name: str
    width: int = 1
    role: Role = "number"  # levels: those that training rows have; fixed: all that are given
    levels: tuple[str, ...] = ()  # the text that each column of ``x`` stands for
    base: str = ""  # the level that all zeros stand for, where one was left out


class Pending(NamedTuple):
    """What is to be learned from training rows and done to all rows."""

    columns: tuple[Column, ...] = ()  # of a table, in the order of ``x``; empty: as they are
    drop_first: bool = False  # leave out the first level of each text column
    scale: Scale = "none"  # to mean 0 and variance 1, over all training rows or the client's own
    target: bool = False  # whether what is predicted is scaled, too: to those of all training rows


NOTHING = Pending()


class Csv(NamedTuple):
    """How a text file of a table is written."""

    separator: str = ""  # empty: a tab in .tsv files, a comma in others
    encoding: str = "utf-8"
    na_values: tuple[str, ...] = ()  # what stands for "missing", beside the usual words
    decimal: str = "."  # or a comma

    def separates(self, name: str) -> str:
        """The character between the fields of a file of this name."""
        return self.separator or ("\t" if ".tsv" in name.lower() else ",")


class Reading(NamedTuple):
    """How rows were read, so that new ones can be read in the same way."""

    form: Literal["arrays", "table", "images"] = "arrays"
    label: str = ""  # of a table: the column that is predicted
    client: str = ""  # column or key that names the client
    layout: str = "auto"  # of arrays: where an image's channels are
    csv: Csv = Csv()
    size: int = 0  # of images: the side they were resized to, 0: as they came
    gaps: bool = False  # of a table: whether missing numbers were expected and filled
    whole: bool = False  # whether labels were whole numbers rather than text


AS_ARRAYS = Reading()
