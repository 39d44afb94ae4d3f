"""NIID-2 of FedDisco (Ye et al. 2023): one unbiased client, the others with few classes each.

Of K clients one is unbiased and holds N/K examples; each of the others alone holds all that remains
of its M/(K-1) classes (two of ten with K = 6). The code of the VAE-latent weights draws examples of
the unbiased client at random; FedDisco's takes the same share of every class, which with equal
classes makes all clients equal. The mark "unbiased" says which client it is.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError
from unalike.federation.partition.base import TablePartitioner
from unalike.federation.partition.sizes import apportion


class Niid2(TablePartitioner):
    """NIID-2: one unbiased client, and five that hold two classes each."""

    clients: int = Field(
        default=6, ge=2, description="number of clients, including the unbiased one"
    )
    reading: Literal["latent", "feddisco"] = Field(
        default="latent",
        description="unbiased client drawn at random (VAE-latent code) or evenly (FedDisco code)",
    )

    def marks(self) -> list[str]:
        """The unbiased client comes last in the table."""
        return [""] * (self.clients - 1) + ["unbiased"]

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        classes, biased = len(class_sizes), self.clients - 1
        if classes % biased:
            valid = [d + 1 for d in range(1, classes + 1) if classes % d == 0]
            near = sorted(valid, key=lambda k: abs(k - self.clients))[:2]
            raise ConfigError(
                f"niid2: {classes} classes cannot be split evenly among {biased} biased clients; "
                f"set clients to {' or '.join(map(str, sorted(near)))}."
            )
        total = int(class_sizes.sum())
        share = total // self.clients
        unbiased = (
            rng.multivariate_hypergeometric(class_sizes, share)
            if self.reading == "latent"
            else apportion(share, class_sizes)
        )
        table = np.zeros((self.clients, classes), dtype=np.int64)
        table[np.arange(classes) // (classes // biased), np.arange(classes)] = (
            class_sizes - unbiased
        )
        table[-1] = unbiased
        return table
