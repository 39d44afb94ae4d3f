"""Partitions as tables of counts, and as the partitioner made them before it numbered clients."""

import numpy as np

from unalike.federation.partition.base import Labels, Partitioner, TablePartitioner

BALANCED = np.arange(60_000) % 10


def owners(
    partitioner: Partitioner,
    labels: np.ndarray,
    classes: int = 10,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """The client of each example."""
    rng = np.random.default_rng(seed)
    return partitioner.assign(Labels(labels, classes, groups), rng).owner


def counted(owner: np.ndarray, labels: np.ndarray, clients: int, classes: int = 10) -> np.ndarray:
    """Examples by client and class; those that nobody holds do not count."""
    held = owner >= 0
    cell = owner[held] * classes + labels[held]
    return np.bincount(cell, minlength=clients * classes).reshape(clients, classes)


def table(
    partitioner: Partitioner, labels: np.ndarray = BALANCED, classes: int = 10, seed: int = 0
) -> np.ndarray:
    """Examples by client and class, the clients in the random order of their numbers."""
    owner = owners(partitioner, labels, classes, seed)
    return counted(owner, labels, partitioner.clients, classes)


def in_order(
    partitioner: TablePartitioner, labels: np.ndarray = BALANCED, seed: int = 0
) -> np.ndarray:
    """Examples by client and class in the partitioner's own order."""
    return partitioner.table(np.bincount(labels, minlength=10), np.random.default_rng(seed))
