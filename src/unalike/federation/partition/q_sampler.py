"""q-sampler: one group of clients per class, which gets a share q of it.

p_k(y) = q             for the class y of client k's group
p_k(y) = (1-q)/(M-1)   otherwise
EMD    = 2 |q - 1/M|   against a uniform pooled distribution
"""

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError
from unalike.federation.goals import Goal
from unalike.federation.partition.base import Labels, TablePartitioner
from unalike.federation.partition.keep_one import KeepOne, at_least_one
from unalike.federation.partition.label_sets import require_even
from unalike.federation.partition.rounding import round_columns


def emd_q_sampler(q: float, classes: int) -> float:
    """EMD of the q-sampler."""
    return 2 * abs(q - 1 / classes)


class QSampler(TablePartitioner):
    """Label skew by one client group per class that gets a share q of it."""

    q: float = Field(default=0.5, ge=0, le=1, description="share of a class for its own group")
    keep_one: KeepOne = False

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """The closed form."""
        return (Goal("EMD", emd_q_sampler(self.q, labels.classes)),)

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class; inside a group clients get examples in turn."""
        classes = len(class_sizes)
        if classes < 2:
            raise ConfigError("q_sampler needs at least 2 classes, got 1; use iid or quantity.")
        require_even("q_sampler", self.clients, classes)
        group_size = self.clients // classes
        group = np.arange(self.clients) % classes
        own = group[:, None] == np.arange(classes)
        expected = class_sizes * np.where(own, self.q, (1 - self.q) / (classes - 1)) / group_size
        if self.keep_one:
            expected = at_least_one("q_sampler", expected, class_sizes)
        return round_columns(expected, class_sizes)
