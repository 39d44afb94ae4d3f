"""Where in the data something is wrong, in terms by which a person can find it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from unalike.errors import DataError

Where = Callable[[int, bool], str]  # a row, and whether it is one of the test set


def counted(row: int, test: bool) -> str:
    """A row of data in memory.

    >>> counted(3, False), counted(3, True)
    ('row 3 (counted from 0)', 'test row 3 (counted from 0)')
    """
    return f"{'test row' if test else 'row'} {row} (counted from 0)"


class RowError(DataError):
    """Data that are wrong in one row; ``{row}`` in the sentence stands for its place."""

    def __init__(self, sentence: str, row: int, test: bool = False) -> None:
        """By number, unless ``placed`` finds a better name."""
        super().__init__(sentence.replace("{row}", counted(row, test)))
        self.sentence, self.row, self.test = sentence, row, test


@contextmanager
def placed(where: Where) -> Iterator[None]:
    """Name the rows of errors by ``where``."""
    try:
        yield
    except RowError as error:
        place = where(error.row, error.test)
        raise DataError(error.sentence.replace("{row}", place)) from None
