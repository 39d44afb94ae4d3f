"""NIID-1 of FedDisco (Ye et al. 2023): ten clients by a Dirichlet vector per class.

Two public implementations differ: FedDisco's closes a client at N/K examples and requires at least
10; that of the VAE-latent weights closes none and requires at least 40. Both redraw until every
client is large enough; here clients that are too small are filled instead.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from unalike.federation.goals import Goal
from unalike.federation.partition.base import Labels, Partitioner
from unalike.federation.partition.dirichlet import MOST_ALPHA, Dirichlet

LEAST = {"latent": 40, "feddisco": 10}


class Niid1(Partitioner):
    """NIID-1: a Dirichlet(0.5) vector over ten clients for each class."""

    min_size: int = Field(
        default=0,
        ge=0,
        description="fewest examples of a client; 0: the 40 or 10 of the chosen code",
    )
    alpha: float = Field(
        default=0.5, gt=0, le=MOST_ALPHA, allow_inf_nan=False, description="concentration"
    )
    reading: Literal["latent", "feddisco"] = Field(
        default="latent", description="which code to follow: VAE-latent weights or FedDisco"
    )

    def draw(self, labels: Labels, rng: np.random.Generator) -> np.ndarray:
        """Partitions as the Dirichlet partitioner with this reading's settings."""
        return self._dirichlet().assign(labels, rng).owner

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """Those of the Dirichlet partitioner."""
        return self._dirichlet().goals(labels)

    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(
            clients=self.clients,
            min_size=self.min_size or LEAST[self.reading],
            alpha=self.alpha,
            balance=self.reading == "feddisco",
        )
