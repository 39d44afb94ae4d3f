"""Quantity skew: clients of unequal size with the same label mix, except by chance."""

from typing import Literal

import numpy as np
from pydantic import Field

from unalike.federation.partition.base import Labels, Partitioner
from unalike.federation.partition.sizes import apportion, lognormal_shares


class Quantity(Partitioner):
    """Size skew alone: unequal client sizes, labels iid."""

    law: Literal["dirichlet", "power", "lognormal"] = Field(
        default="dirichlet", description="distribution of the client sizes"
    )
    spread: float = Field(
        default=0.5,
        gt=0,
        le=100,
        description="dirichlet: concentration beta (small is skewed); power: exponent of the size "
        "by rank; lognormal: standard deviation of the log size",
    )

    def draw(self, labels: Labels, rng: np.random.Generator) -> np.ndarray:
        """Deals the examples in random order to clients of the drawn sizes."""
        sizes = apportion(len(labels), self._shares(rng))
        return rng.permutation(np.repeat(np.arange(self.clients), sizes))

    def _shares(self, rng: np.random.Generator) -> np.ndarray:
        if self.law == "dirichlet":
            return rng.dirichlet(np.full(self.clients, self.spread))
        if self.law == "power":
            ranks = rng.permutation(self.clients) + 1.0
            return ranks**-self.spread
        return lognormal_shares(self.clients, self.spread, rng)
