"""Shakespeare (McMahan et al., 2017; Caldas et al., LEAF, 2018): the next character, by role.

A client is one role of one play. Its lines are joined by spaces and cut into windows of 80
characters; what is predicted is the character after the window, or after each of its characters.
Characters outside the vocabulary count as spaces (the plays have one such, a dollar sign).
"""

import string
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import StoredDataset
from unalike.federation.readers.labels import code_clients
from unalike.federation.readers.leaf import leaf_files, read_leaf
from unalike.federation.readers.table_file import table_file

if TYPE_CHECKING:
    from unalike.federation.data import Examples

VOCABULARIES = {
    "leaf": "\n !\"&'(),-.0123456789:;>?"
    + string.ascii_uppercase
    + "[]"
    + string.ascii_lowercase
    + "}",
    "printable": string.printable,
}


class Shakespeare(StoredDataset):
    """Lines of Shakespeare's plays, predicting the next character; the roles are the clients."""

    title: ClassVar[str] = "shakespeare"
    files: ClassVar[str] = (
        "shakespeare_plays.parquet (columns play, role, line), or LEAF's shakespeare/data folder "
        "of JSON files,"
    )
    hub_name: ClassVar[str] = "flwrlabs/shakespeare"

    length: int = Field(default=80, ge=1, description="characters in a window")
    stride: int = Field(
        default=80,
        ge=1,
        description="characters from one window to the next; below 'length' windows overlap, and "
        "test rows share text with training rows",
    )
    max_windows: int = Field(
        default=0, ge=0, description="how many of each role's first windows to keep; 0: all"
    )
    min_lines: int = Field(default=3, ge=1, description="roles with fewer lines are left out")
    target: Literal["last", "every"] = Field(
        default="last", description="predict the character after the window, or after each in it"
    )
    vocabulary: Literal["leaf", "printable"] = Field(
        default="leaf", description="LEAF's 80 characters or the 100 of string.printable"
    )

    def load(self) -> "Examples":
        """Windows as numbers [N, length] and the next characters; groups are the roles."""
        if found := self.find("shakespeare_plays.parquet"):
            return self._from_plays(found[0])
        for place in self.subfolders("shakespeare", "leaf/shakespeare"):
            if files := leaf_files(place):
                rows = read_leaf(files)
                return self._from_windows(rows.x, rows.y, rows.user)
        rows = self.hub()["train"]
        return self._from_windows(
            *(np.array(list(rows[key])) for key in ("x", "y", "character_id"))
        )

    def _from_plays(self, path: Path) -> "Examples":
        import polars as pl

        table = table_file(path)
        for column in ("play", "role", "line"):
            if column not in table.columns:
                raise DataError(f"'{path}' has no column '{column}': {', '.join(table.columns)}.")
        roles = (
            table.group_by("play", "role", maintain_order=True)
            .agg(pl.col("line").str.join(" ").alias("text"), pl.len().alias("lines"))
            .filter(pl.col("lines") >= self.min_lines)
        )
        text = roles["text"].to_list()
        size = np.array([len(part) for part in text])
        windows = np.maximum(size - self.length - 1 + self.stride, 0) // self.stride
        if self.max_windows:
            windows = np.minimum(windows, self.max_windows)
        if not windows.sum():
            raise DataError("no role has a whole window; lower length or min_lines.")
        spoken = windows > 0
        begin = (np.cumsum(size) - size)[spoken]
        codes = self._codes("".join(text))
        count = windows[spoken]
        role = np.repeat(np.arange(len(count)), count)
        within = np.arange(len(role)) - np.repeat(np.cumsum(count) - count, count)
        first = begin[role] + within * self.stride
        window = codes[first[:, None] + np.arange(self.length + 1)]
        names = roles.select(pl.format("{}: {}", "play", "role")).to_series().to_numpy()[spoken]
        return self._examples(window, role, tuple(str(name) for name in names))

    def _from_windows(self, x: np.ndarray, y: np.ndarray, user: np.ndarray) -> "Examples":
        """From windows that were cut already; ``stride`` and ``min_lines`` have had their say."""
        if unused := self.model_fields_set & {"length", "stride", "min_lines", "max_windows"}:
            raise DataError(
                f"{min(unused)} has no effect on LEAF's windows, which are already cut; remove it."
            )
        clients = code_clients(user)
        text = "".join(f"{window}{after}" for window, after in zip(x, y, strict=True))
        if len(text) != len(x) * (self.length + 1):
            raise DataError(f"LEAF's windows must have {self.length} characters each.")
        window = self._codes(text).reshape(len(x), -1)
        return self._examples(window, clients.codes, clients.names)

    def _codes(self, text: str) -> np.ndarray:
        letters = VOCABULARIES[self.vocabulary]
        table = np.full(129, letters.index(" "), np.int32)
        table[[ord(letter) for letter in letters]] = np.arange(len(letters))
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        return table[np.minimum(points, 128)]

    def _examples(self, window: np.ndarray, role: np.ndarray, names: tuple[str, ...]) -> "Examples":
        import torch

        from unalike.federation.data import Examples

        letters = VOCABULARIES[self.vocabulary]
        after = window[:, -1] if self.target == "last" else window[:, 1:]
        return Examples(
            x=torch.from_numpy(np.ascontiguousarray(window[:, :-1])),
            y=torch.from_numpy(after.astype(np.int64)),
            classes=len(letters),
            kind="characters",
            groups=role,
            group_names=names,
            class_names=tuple(letters),
            name=self.title,
        )
