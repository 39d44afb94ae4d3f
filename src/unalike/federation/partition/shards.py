"""The pathological partition of McMahan et al. (2017): shards of examples sorted by label."""

from typing import Literal

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.partition.base import Labels, Partitioner


class Shards(Partitioner):
    """Pathological skew: sort by label, cut into shards, a few shards per client."""

    shards_per_client: int = Field(default=2, ge=1, description="shards of each client")
    assignment: Literal["random", "strided"] = Field(
        default="random",
        description="shards at random, or every K-th shard in dataset order to the same client",
    )

    def draw(self, labels: Labels, rng: np.random.Generator) -> np.ndarray:
        """Cuts the examples, sorted by label, into shards whose sizes differ by at most one."""
        n, shards = len(labels), self.clients * self.shards_per_client
        if n < shards:
            raise DataError(
                f"shards: {n} examples cannot be cut into {shards} shards; use at most "
                f"{n // self.clients} shards per client or {n // self.shards_per_client} clients."
            )
        client_of_shard = np.arange(shards) % self.clients
        order = np.arange(n)
        if self.assignment == "random":
            client_of_shard, order = rng.permutation(client_of_shard), rng.permutation(n)
        order = order[np.argsort(labels.labels[order], kind="stable")]
        owner = np.empty(n, dtype=np.int64)
        owner[order] = client_of_shard[np.arange(n) * shards // n]
        return owner
