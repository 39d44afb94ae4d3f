"""The clients the data come with: writers, hospitals, regions, speakers."""

import heapq
from typing import Literal

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError, DataError
from unalike.federation.partition.base import (
    UNUSED,
    Labels,
    Partition,
    Partitioner,
    numbered,
    require_examples,
)


class Natural(Partitioner):
    """The clients the data come with, one per group of the dataset."""

    clients: int = Field(
        default=0,
        ge=0,
        description="0: one client per group; otherwise the smallest groups are merged until "
        "this many are left",
    )
    min_size: int = Field(default=1, ge=1, description="fewest examples of a client")
    small: Literal["error", "join", "drop"] = Field(
        default="error",
        description="what to do with groups below min_size: refuse, merge the smallest, or leave "
        "their examples out",
    )

    def assign(self, labels: Labels, rng: np.random.Generator) -> Partition:
        """The client of each example; clients keep the names of their groups."""
        owner = self.draw(labels, rng)
        names: tuple[str, ...] = ()
        if labels.groups is not None and labels.group_names:
            held = owner != UNUSED
            names = client_names(owner[held], labels.groups[held], labels.group_names)
        return numbered(owner, int(owner.max()) + 1, rng, names)

    def draw(self, labels: Labels, rng: np.random.Generator) -> np.ndarray:
        """Follows the groups; joins some where the settings ask for it."""
        groups = labels.groups
        if groups is None:
            raise DataError(
                "natural: these data have no natural clients; use another partitioner, "
                "or name a client column when loading them."
            )
        if len(groups) != len(labels):
            raise DataError(
                f"natural: groups must give one entry for each of the {len(labels)} examples, "
                f"got {len(groups)}."
            )
        require_examples(len(labels), max(self.clients, 1), self.min_size)
        present, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        if self.small == "drop":
            return self._without_small(group, sizes)
        if self.clients > len(present):
            raise ConfigError(
                f"natural: the data have {len(present)} groups and clients is {self.clients}; "
                f"set clients to at most {len(present)}, or 0 for one client per group."
            )
        return self._client_of_group(sizes)[group].astype(np.int64)

    def _without_small(self, group: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Clients of the groups that are large enough; nobody holds what the others had."""
        if self.clients:
            raise ConfigError(
                "natural: small = 'drop' keeps all groups that are large enough, so clients = "
                f"{self.clients} has no meaning; set clients to 0."
            )
        kept = sizes >= self.min_size
        if not kept.any():
            raise DataError(
                f"natural: no group has min_size = {self.min_size} examples (the largest has "
                f"{sizes.max()}); lower min_size."
            )
        number = np.where(kept, np.cumsum(kept) - 1, UNUSED)
        return number[group].astype(np.int64)

    def _client_of_group(self, sizes: np.ndarray) -> np.ndarray:
        """The client of each group: the two smallest are joined while the settings ask for it."""
        parent = np.arange(len(sizes))
        heap = [(int(size), g) for g, size in enumerate(sizes)]
        heapq.heapify(heap)
        while self._joins(heap):
            size, g = heapq.heappop(heap)
            other, h = heapq.heappop(heap)
            parent[max(g, h)] = min(g, h)
            heapq.heappush(heap, (size + other, min(g, h)))
        while (parent != parent[parent]).any():
            parent = parent[parent]
        client: np.ndarray = np.unique(parent, return_inverse=True)[1]
        return client

    def _joins(self, heap: list[tuple[int, int]]) -> bool:
        if self.clients and len(heap) > self.clients:
            return True
        if heap[0][0] >= self.min_size:
            return False
        if self.small == "join" and not self.clients:
            return True
        below = sum(size < self.min_size for size, _ in heap)
        fix = "set clients lower or to 0" if self.clients else "set small = 'join' or 'drop'"
        raise DataError(
            f"natural: {below} of {len(heap)} clients have fewer than min_size = {self.min_size} "
            f"examples (the smallest has {heap[0][0]}); {fix}, or lower min_size."
        )


def client_names(
    owner: np.ndarray, groups: np.ndarray, group_names: tuple[str, ...]
) -> tuple[str, ...]:
    """The name of each client of a natural partition; joined groups are written ``a+b``."""
    names: list[list[str]] = [[] for _ in range(int(owner.max()) + 1)]
    for client, group in np.unique(np.stack([owner, groups], axis=1), axis=0):
        names[client].append(group_names[group])
    return tuple("+".join(parts) for parts in names)
