"""Two or more groups of clients, each with its own Dirichlet concentration.

The mixed setting of entropy pooling (FedEP): some clients nearly iid (alpha = 50), the others
skewed. A single Dirichlet vector per class with concentrations (50, ..., 0.5, ...) would leave the
skewed clients about one per cent of the data each, so mixes are drawn per client with equal sizes
by default, and the vector is kept as a switch.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from unalike.errors import ConfigError
from unalike.federation.partition.base import TablePartitioner
from unalike.federation.partition.dirichlet import MOST_ALPHA
from unalike.federation.partition.mixes import table_of_mixes
from unalike.federation.partition.rounding import round_columns
from unalike.federation.partition.sizes import even_sizes


class Mixed(TablePartitioner):
    """Groups of clients with different Dirichlet concentrations: some iid, some skewed."""

    sizes: list[int] = Field(default=[5, 5], min_length=1, description="clients of each group")
    alphas: list[float] = Field(
        default=[50.0, 0.5], min_length=1, description="concentration of each group"
    )
    mode: Literal["per_client", "per_class_vector"] = Field(
        default="per_client",
        description="a label mix per client and equal sizes, or one vector over clients per class",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.sizes) != len(self.alphas):
            raise ConfigError(
                f"mixed: sizes and alphas must name the same groups, "
                f"got {len(self.sizes)} sizes and {len(self.alphas)} alphas."
            )
        if min(self.sizes) < 1 or not all(0 < alpha <= MOST_ALPHA for alpha in self.alphas):
            raise ConfigError(
                f"mixed: every group needs at least 1 client and an alpha above 0, up to "
                f"{MOST_ALPHA:g}, got sizes {self.sizes} and alphas {self.alphas}."
            )
        if sum(self.sizes) != self.clients:
            raise ConfigError(
                f"mixed: group sizes {self.sizes} add up to {sum(self.sizes)} and clients is "
                f"{self.clients}; set clients = {sum(self.sizes)} or change the sizes."
            )
        return self

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        if self.mode == "per_class_vector":
            concentration = np.repeat(np.array(self.alphas, dtype=float), self.sizes)
            shares = rng.dirichlet(concentration, len(class_sizes)).T
            return round_columns(shares * class_sizes, class_sizes)
        present = np.flatnonzero(class_sizes)
        mixes = np.vstack(
            [
                rng.dirichlet(np.full(len(present), alpha), size)
                for size, alpha in zip(self.sizes, self.alphas, strict=True)
            ]
        )
        # The classes must come out even, and those who are unlike the others give way for it: a
        # client of alpha = 50 that made room for the skewed ones would not be nearly iid.
        alphas = np.repeat(np.array(self.alphas, dtype=float), self.sizes)
        equal = even_sizes(int(class_sizes.sum()), self.clients)
        table = np.zeros((self.clients, len(class_sizes)), dtype=np.int64)
        table[:, present] = table_of_mixes(
            mixes, equal, class_sizes[present], alphas.min() / alphas
        )
        return table
