"""Two or more groups of clients, each with its own Dirichlet concentration.

The mixed setting of entropy pooling (FedEP): some clients nearly iid (alpha = 50), the others
skewed. A single Dirichlet vector per class with concentrations (50, ..., 0.5, ...) would leave the
skewed clients about one per cent of the data each, so mixes are drawn per client by default, and
the vector is kept as a switch.

q_k ~ Dir(alpha_k M p),  p the label mix of the dataset;  Dir(alpha_k 1_M) with equal classes

Clients are of equal size and keep the mixes they drew: they are as large as the class that is asked
for most allows, and what is left of the other classes stays unused. The mark "alpha = 0.5" says
which clients have that concentration.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from unalike.errors import ConfigError
from unalike.federation.goals import Goal
from unalike.federation.partition.base import Labels, TablePartitioner
from unalike.federation.partition.dirichlet import MOST_ALPHA
from unalike.federation.partition.dirichlet_emd import emd_of_mixes
from unalike.federation.partition.mixes import table_of_exact_mixes
from unalike.federation.partition.rounding import Floats, Ints, round_columns


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

    def marks(self) -> list[str]:
        """The concentration of each client, group after group."""
        groups = zip(self.sizes, self.alphas, strict=True)
        return [_mark(alpha) for size, alpha in groups for _ in range(size)]

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """The mean EMD of each concentration, from the label mix of the dataset."""
        if self.mode == "per_class_vector":
            return ()
        share = labels.class_sizes / len(labels)
        return tuple(
            Goal(
                f"mean EMD of clients with {_mark(alpha)}",
                emd_of_mixes(_concentration(alpha, labels.class_sizes)),
                _mark(alpha),
                tuple(share.tolist()),
            )
            for alpha in dict.fromkeys(self.alphas)
        )

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        if self.mode == "per_class_vector":
            concentration = np.repeat(np.array(self.alphas, dtype=float), self.sizes)
            shares = rng.dirichlet(concentration, len(class_sizes)).T
            return round_columns(shares * class_sizes, class_sizes)
        mixes = np.vstack(
            [
                rng.dirichlet(_concentration(alpha, class_sizes), size)
                for size, alpha in zip(self.sizes, self.alphas, strict=True)
            ]
        )
        present = np.flatnonzero(class_sizes)
        table = np.zeros((self.clients, len(class_sizes)), dtype=np.int64)
        table[:, present] = table_of_exact_mixes(mixes, class_sizes[present], self.min_size)
        return table


def _mark(alpha: float) -> str:
    return f"alpha = {alpha:g}"


def _concentration(alpha: float, class_sizes: Ints) -> Floats:
    """Of the classes that occur, so that their mean is the label mix of the dataset."""
    present = class_sizes[class_sizes > 0]
    return alpha * len(present) * present / present.sum()
