"""What every partitioner shares: what it sees, the deal, the least client size, and the numbering.

Client numbers carry no meaning: a partitioner settles who holds what, and then the clients are
numbered at random. Any grouping by number (blocks, strides, neighbours on a ring) is therefore a
random group, whatever the order in which the partitioner worked.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.goals import Goal
from unalike.federation.partition.minimum import top_up
from unalike.settings import Settings

UNUSED = -1  # the owner of an example that no client holds


@dataclass(frozen=True)
class Labels:
    """What a partitioner sees of the data."""

    labels: np.ndarray  # class of each example, 0..classes-1
    classes: int  # those without an example included
    groups: np.ndarray | None = None  # natural client of each example
    group_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise DataError(
                f"labels must be a vector of integers, got {labels.dtype} of shape {labels.shape}."
            )
        if len(labels) and (labels.min() < 0 or labels.max() >= self.classes):
            raise DataError(
                f"labels must lie in 0 to {self.classes - 1} for {self.classes} classes, "
                f"got {labels.min()} to {labels.max()}."
            )
        object.__setattr__(self, "labels", labels.astype(np.int64, copy=False))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def class_sizes(self) -> np.ndarray:
        """Examples of each class."""
        return np.bincount(self.labels, minlength=self.classes)


class Partition(NamedTuple):
    """Who holds which example."""

    owner: np.ndarray  # client of each example, int64 [n]; UNUSED where nobody holds it
    names: tuple[str, ...] = ()  # of the clients, where they have any
    marks: tuple[str, ...] = ()  # what the partitioner did to each client, if they differ


class Partitioner(Settings):
    """A rule that gives an example to one client at most."""

    clients: int = Field(default=10, ge=1, description="number of clients")
    min_size: int = Field(
        default=1,
        ge=1,
        description="fewest examples of a client; smaller ones are filled from the largest",
    )

    def assign(self, labels: Labels, rng: np.random.Generator) -> Partition:
        """The client of each example, the clients numbered at random.

        ``rng`` is the only source of randomness; the same state gives the same partition.
        """
        require_examples(len(labels), self.clients, self.min_size)
        owner = self.draw(labels, rng)
        owner = top_up(owner, labels.labels, self.clients, self.min_size, rng)
        return numbered(owner, self.clients, rng, marks=self.marks())

    @abstractmethod
    def draw(self, labels: Labels, rng: np.random.Generator) -> np.ndarray:
        """The client of each example, in the partitioner's own order and of whatever size."""

    def marks(self) -> Sequence[str]:
        """What sets each client apart, in the partitioner's own order; empty if nothing does."""
        return ()

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """The skew that the settings ask for, where they name any."""
        return ()


class TablePartitioner(Partitioner):
    """A partitioner that decides counts by client and class; which examples is left to chance."""

    def draw(self, labels: Labels, rng: np.random.Generator) -> np.ndarray:
        """Deals each class's examples, in random order, as the table says."""
        return deal(labels, self.table(labels.class_sizes, rng), rng)

    @abstractmethod
    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Examples by client and class; what a column leaves of ``class_sizes`` stays unused."""


def deal(labels: Labels, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An owner vector, random in everything but its counts by client and class."""
    clients, classes = table.shape
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels.labels[order], kind="stable")]
    rest = labels.class_sizes - table.sum(axis=0)
    owner = np.empty(len(labels), dtype=np.int64)
    takers = np.append(np.arange(clients), UNUSED)
    owner[order] = np.repeat(np.tile(takers, classes), np.vstack([table, rest]).T.ravel())
    return owner


def numbered(
    owner: np.ndarray,
    clients: int,
    rng: np.random.Generator,
    names: Sequence[str] = (),
    marks: Sequence[str] = (),
) -> Partition:
    """The partition with its clients in random order; names and marks go with them."""
    order = rng.permutation(clients)  # the client that gets each number
    number = np.append(np.argsort(order), UNUSED)  # an owner of UNUSED finds the last entry

    def sorted_by_number(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(words[k] for k in order) if words else ()

    return Partition(number[owner], sorted_by_number(names), sorted_by_number(marks))


def require_examples(n: int, clients: int, min_size: int) -> None:
    """Refuses more clients than the examples can fill to the least size."""
    if n >= clients * min_size:
        return
    fixes = [f"use at most {n // min_size} clients"] if n >= min_size else []
    fixes += [f"set min_size to at most {n // clients}"] if n >= clients else []
    raise DataError(
        f"{clients} clients of at least {min_size} need {clients * min_size} examples "
        f"and there are {n}; {' or '.join(fixes) or 'use more examples'}."
    )
