"""No skew: the baseline every other partition is compared with."""

import numpy as np

from unalike.federation.partition.base import Labels, Partitioner


class Iid(Partitioner):
    """Equal random parts: no skew except by chance."""

    def draw(self, labels: Labels, rng: np.random.Generator) -> np.ndarray:
        """Deals the examples in random order, one to each client in turn."""
        return rng.permutation(np.arange(len(labels)) % self.clients)
