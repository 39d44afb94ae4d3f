"""What every partitioner shares: the check of its input, the deal, and the least client size."""

from abc import abstractmethod

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.partition.minimum import top_up
from unalike.settings import Settings


class Partitioner(Settings):
    """A rule that gives every example to exactly one client."""

    clients: int = Field(default=10, ge=1, description="number of clients")
    min_size: int = Field(
        default=1,
        ge=1,
        description="fewest examples of a client; smaller ones are filled from the largest",
    )

    def assign(
        self,
        labels: np.ndarray,
        classes: int,
        rng: np.random.Generator,
        groups: np.ndarray | None = None,
    ) -> np.ndarray:
        """The client of each example, int64 [n].

        Args:
            labels: class of each example, 0..classes-1.
            classes: number of classes, those without an example included.
            rng: the only source of randomness; the same state gives the same partition.
            groups: natural client of each example, for the partitioners that follow it.
        """
        labels = checked_labels(labels, classes)
        require_examples(len(labels), self.clients, self.min_size)
        owner = self.draw(labels, classes, rng, groups)
        return top_up(owner, labels, self.clients, self.min_size, rng)

    @abstractmethod
    def draw(
        self,
        labels: np.ndarray,
        classes: int,
        rng: np.random.Generator,
        groups: np.ndarray | None,
    ) -> np.ndarray:
        """The client of each example before the least size is enforced."""


class TablePartitioner(Partitioner):
    """A partitioner that decides counts by client and class; which examples is left to chance."""

    def draw(
        self,
        labels: np.ndarray,
        classes: int,
        rng: np.random.Generator,
        groups: np.ndarray | None,
    ) -> np.ndarray:
        """Deals each class's examples, in random order, as the table says."""
        class_sizes = np.bincount(labels, minlength=classes)
        return deal(labels, self.table(class_sizes, rng), rng)

    @abstractmethod
    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Examples by client and class, [clients, classes]; columns add up to ``class_sizes``."""


def deal(labels: np.ndarray, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An owner vector, random in everything but its counts by client and class."""
    clients, classes = table.shape
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    owner = np.empty(len(labels), dtype=np.int64)
    owner[order] = np.repeat(np.tile(np.arange(clients), classes), table.T.ravel())
    return owner


def checked_labels(labels: np.ndarray, classes: int) -> np.ndarray:
    """The labels as int64, or an error that says what is wrong with them."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels must be a vector of integers, got {labels.dtype} of shape {labels.shape}."
        )
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        raise DataError(
            f"labels must lie in 0 to {classes - 1} for {classes} classes, "
            f"got {labels.min()} to {labels.max()}."
        )
    return labels.astype(np.int64, copy=False)


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
