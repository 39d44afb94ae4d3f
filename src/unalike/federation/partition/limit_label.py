"""Limit-label sampler ll(t, f): a share f of each label goes to its owners alone.

Omega_k: the t priority labels of client k; every label has tK/M owners.

p_k(y) = f/t + (1-f)/M   for y in Omega_k
p_k(y) = (1-f)/M         otherwise
EMD    = 2f (1 - t/M)    against a uniform pooled distribution

If f = 1, every client still gets one example of each class unless ``keep_one`` is false: the thesis
does so because FedAug needs examples to start from. This lowers the EMD by 2 (M - t) K / N. The
label sets are drawn at random.
"""

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError
from unalike.federation.goals import Goal
from unalike.federation.partition.base import Labels, TablePartitioner
from unalike.federation.partition.keep_one import at_least_one, scarce
from unalike.federation.partition.label_sets import priority_labels
from unalike.federation.partition.rounding import round_columns


def emd_limit_label(t: int, f: float, classes: int) -> float:
    """EMD of ll(t, f)."""
    return 2 * f * (1 - t / classes)


class LimitLabel(TablePartitioner):
    """Label skew by t priority labels per client that hold a share f of the data."""

    t: int = Field(default=2, ge=1, description="priority labels per client")
    f: float = Field(
        default=1.0, ge=0, le=1, description="share of each label that only its owners get"
    )
    keep_one: bool | None = Field(
        default=None,
        description="give every client at least one example of each class; unset: if f = 1 and "
        "every class has at least as many examples as there are clients",
    )

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """The closed form."""
        return (Goal("EMD", emd_limit_label(self.t, self.f, labels.classes)),)

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        classes, t, f = len(class_sizes), self.t, self.f
        if t > classes:
            raise ConfigError(
                f"limit_label: t={t} exceeds the {classes} classes; use 1 to {classes}."
            )
        owned = priority_labels("limit_label", self.clients, classes, t, rng)
        owners = t * self.clients // classes
        expected = class_sizes * ((1 - f) / self.clients + f / owners * owned)
        if self._keeps_one(class_sizes):
            expected = at_least_one("limit_label", expected, class_sizes)
        return round_columns(expected, class_sizes)

    def _keeps_one(self, class_sizes: np.ndarray) -> bool:
        if self.keep_one is None:
            return self.f == 1 and not len(scarce(class_sizes, self.clients))
        return self.keep_one
