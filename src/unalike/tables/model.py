"""A table before anything is known of the medium: every cell has its value and its text."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Value: TypeAlias = float | str | None


class Cell(NamedTuple):
    """What is sorted and stored, and what is read."""

    value: Value
    text: str
    bold: bool = False
    mark: str = ""  # behind the text: a star, a dagger, or how many seeds there were

    @property
    def shown(self) -> str:
        """The text with its mark."""
        return f"{self.text}{self.mark}"


class Table(NamedTuple):
    """A column of names, then columns of numbers or words; notes stand below."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: Sequence[str] = ()

    @property
    def numeric(self) -> list[bool]:
        """Whether a column holds numbers, which are set to the right and sorted as such."""
        return [
            not any(isinstance(row[j].value, str) for row in self.rows)
            for j in range(len(self.columns))
        ]

    def filled(self) -> "Table":
        """The table without columns that hold nothing."""
        return self.only(
            [
                j
                for j in range(len(self.columns))
                if j == 0 or any(row[j].value is not None for row in self.rows)
            ]
        )

    def only(self, columns: Sequence[int]) -> "Table":
        """The table with some of its columns."""
        return self._replace(
            columns=[self.columns[j] for j in columns],
            rows=[[row[j] for j in columns] for row in self.rows],
        )


def new_notes(table: Table, said: set[str]) -> list[str]:
    """The notes of a table that stood below none before it; from now on they did."""
    new = [note for note in table.notes if note not in said]
    said.update(new)
    return new
