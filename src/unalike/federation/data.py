"""One type for a partitioned dataset: who owns which example, and what each example is for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike.errors import ConfigError, DataError, unknown
from unalike.federation.columns import AS_ARRAYS, NOTHING, Pending, Reading
from unalike.federation.features import UNTOUCHED, Features
from unalike.federation.goals import Outcome
from unalike.kinds import AS_GIVEN, Kind, Unit

TRAIN, VALIDATION, TEST, ADAPT = 0, 1, 2, 3  # ADAPT: what a new client may learn from
FREE = -1  # a row whose part is drawn by the split
PARTS = {"train": TRAIN, "validation": VALIDATION, "test": TEST}


@dataclass(frozen=True)
class Examples:
    """A dataset before it is partitioned: features, labels and, where they exist, natural clients.

    ``y`` holds what is predicted. ``strata`` is what skew is measured and split by; it is ``y``
    unless the labels are sequences (next characters), where it is the last one, or numbers, where
    it is the range they are in.
    """

    x: Tensor
    y: Tensor
    classes: int
    kind: Kind = "multiclass"
    groups: np.ndarray | None = None  # natural client of each example, 0..G-1
    group_names: tuple[str, ...] = ()
    test_x: Tensor | None = None  # the dataset's own test set, if it has one
    test_y: Tensor | None = None
    class_names: tuple[str, ...] = ()
    name: str = "data"
    pending: Pending = NOTHING  # what is learned from training rows once they are known
    reading: Reading = AS_ARRAYS
    # Attributes that are the last columns of ``x``, 0 or 1: for adversaries, hidden from networks.
    protected: tuple[str, ...] = ()
    part: np.ndarray | None = None  # what each row is for, where the data say so; FREE: they do not
    units: np.ndarray | None = None  # rows of one unit (a patient) are on one side of the split
    ranges: np.ndarray | None = None  # if targets are numbers: the class that stands for each
    unit: Unit = AS_GIVEN  # how these were scaled

    @cached_property
    def strata(self) -> np.ndarray:
        """The class of each example as a NumPy vector."""
        if self.ranges is not None:
            return self.ranges
        y = self.y.numpy().astype(np.int64)
        if y.ndim == 1:
            return y
        last = y.shape[1] - 1 - (y[:, ::-1] >= 0).argmax(1)  # of those that count
        return y[np.arange(len(y)), last]

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> "Examples":
        """Only some of the examples; the dataset's own test set stays."""
        some = torch.from_numpy(rows)

        def cut(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[rows]

        return replace(
            self,
            x=self.x[some],
            y=self.y[some],
            groups=cut(self.groups),
            part=cut(self.part),
            units=cut(self.units),
            ranges=cut(self.ranges),
        )


@dataclass(frozen=True)
class Federation:
    """A partitioned dataset.

    Examples stay in one tensor; a client is a set of row numbers, so a cohort is gathered by one
    index and no client's data is ever copied. Clients ``0..n_clients-1`` train; the clients from
    ``n_clients`` on are whole held-out clients that only the new-client test sees.
    """

    examples: Examples
    owner: np.ndarray  # [n] client of each example
    part: np.ndarray  # [n] TRAIN, VALIDATION, TEST or ADAPT
    n_clients: int
    n_new: int = 0
    names: tuple[str, ...] = ()
    marks: tuple[tuple[str, ...], ...] = ()  # what was done to each client, the new ones too
    outcomes: tuple[Outcome, ...] = ()  # the requested skew, and the one that was reached
    unused: int = 0  # examples of the dataset that no client holds
    features: Features = UNTOUCHED  # what was learned from training rows and done to all
    handed: int = 0  # bytes of examples that clients were given
    source: np.ndarray | None = None  # the dataset's row that each example is; None: the same
    dealt: Mapping[str, Any] | None = None  # name and settings of the partitioner, if one is known

    def __post_init__(self) -> None:
        n = len(self.examples)
        if len(self.owner) != n or len(self.part) != n:
            raise DataError(
                f"owner and part must give one entry for each of the {n} examples, "
                f"got {len(self.owner)} and {len(self.part)}."
            )
        if n and (self.owner.min() < 0 or self.owner.max() >= self.n_clients + self.n_new):
            raise DataError(
                f"owner must name clients 0 to {self.n_clients + self.n_new - 1}, "
                f"got {self.owner.min()} to {self.owner.max()}."
            )
        empty = np.flatnonzero(self.sizes(TRAIN)[: self.n_clients] == 0)
        if len(empty):
            raise DataError(
                f"client {empty[0]} has no training example ({len(empty)} such clients); "
                "use fewer clients, a larger minimum size, or a smaller test share."
            )

    def rows(self, part: int | str) -> "Rows":
        """The rows of one part ("train", "validation" or "test"), grouped by client."""
        return self._rows[_numbered(part)]

    def number(self, client: str | int) -> int:
        """The number of a client that trains, by its name or its number."""
        return number_of(client, self.names[: self.n_clients], self.n_clients)

    @cached_property
    def _rows(self) -> tuple["Rows", ...]:
        total = self.n_clients + self.n_new

        def group(part: int) -> Rows:
            chosen = np.flatnonzero(self.part == part)
            order = chosen[np.argsort(self.owner[chosen], kind="stable")]
            count = np.bincount(self.owner[chosen], minlength=total)
            return Rows(torch.from_numpy(order), np.concatenate([[0], np.cumsum(count)]))

        return tuple(map(group, (TRAIN, VALIDATION, TEST, ADAPT)))

    def sizes(self, part: int | str) -> np.ndarray:
        """How many examples of one part each client holds, including new clients."""
        chosen = self.part == _numbered(part)
        return np.bincount(self.owner[chosen], minlength=self.n_clients + self.n_new)

    @cached_property
    def counts(self) -> np.ndarray:
        """Training examples by client and class, [n_clients, classes]: what skew is measured on."""
        mine = (self.part == TRAIN) & (self.owner < self.n_clients)
        cell = self.owner[mine] * self.examples.classes + self.examples.strata[mine]
        size = self.n_clients * self.examples.classes
        return np.bincount(cell, minlength=size).reshape(self.n_clients, -1)

    def marked(self, words: Sequence[str]) -> "Federation":
        """The federation with one more mark for each client; an empty word adds none."""
        had = self.marks or ((),) * (self.n_clients + self.n_new)
        new = ((*mine, word) if word else mine for mine, word in zip(had, words, strict=True))
        return replace(self, marks=tuple(new))

    def pooled(self) -> "Rows":
        """All training rows as one client's: the data of the pooled upper bound."""
        mine = self.rows(TRAIN)
        last = int(mine.start[self.n_clients])
        return Rows(mine.order[:last], np.array([0, last]))


def _numbered(part: int | str) -> int:
    """The number of a part that may be named."""
    if isinstance(part, str):
        if part not in PARTS:
            raise unknown("part", part, PARTS)
        return PARTS[part]
    return part


def number_of(client: str | int, names: Sequence[str], n: int) -> int:
    """The number of a client that is named, or numbered from 0."""
    if isinstance(client, str) and client in names:
        return list(names).index(client)
    text = str(client)
    if text.isdigit() and int(text) < n:
        return int(text)
    if not names or text.lstrip("-").isdigit():
        raise ConfigError(f"there is no client {client}; choose 0 to {n - 1}.")
    raise unknown("client", text, names)


@dataclass(frozen=True)
class Rows:
    """Row numbers grouped by client: ``order[start[k]:start[k+1]]`` are client k's."""

    order: Tensor
    start: np.ndarray

    def of(self, client: int) -> Tensor:
        """The rows of one client."""
        return self.order[int(self.start[client]) : int(self.start[client + 1])]

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each client has."""
        return np.diff(self.start)

    @property
    def owner(self) -> Tensor:
        """The client of each entry of ``order``."""
        return torch.from_numpy(np.repeat(np.arange(len(self.start) - 1), self.sizes))
