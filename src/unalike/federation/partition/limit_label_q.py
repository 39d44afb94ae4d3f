"""Limit-label-q sampler ll_q(t, q): the q-sampler with t priority labels per client.

p_k(y) = q/t             for y in Omega_k
p_k(y) = (1-q)/(M-t)     otherwise
EMD    = 2 |q - t/M|     against a uniform pooled distribution
"""

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError
from unalike.federation.goals import Goal
from unalike.federation.partition.base import Labels, TablePartitioner
from unalike.federation.partition.keep_one import KeepOne, at_least_one
from unalike.federation.partition.label_sets import priority_labels
from unalike.federation.partition.rounding import round_columns


def emd_limit_label_q(t: int, q: float, classes: int) -> float:
    """EMD of ll_q(t, q)."""
    return 2 * abs(q - t / classes)


class LimitLabelQ(TablePartitioner):
    """Label skew by t priority labels that make up a share q of each client's data."""

    t: int = Field(default=2, ge=1, description="priority labels per client")
    q: float = Field(
        default=0.9, ge=0, le=1, description="share of a client's data in its priority labels"
    )
    keep_one: KeepOne = False

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """The closed form."""
        return (Goal("EMD", emd_limit_label_q(self.t, self.q, labels.classes)),)

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        classes, t, q = len(class_sizes), self.t, self.q
        if t >= classes:
            allowed = f"use 1 to {classes - 1}" if classes > 1 else "use iid or quantity"
            raise ConfigError(
                f"limit_label_q: t={t} must be less than the {classes} class(es); {allowed}."
            )
        owned = priority_labels("limit_label_q", self.clients, classes, t, rng)
        owners = t * self.clients // classes
        expected = class_sizes * np.where(owned, q / owners, (1 - q) / (self.clients - owners))
        if self.keep_one:
            expected = at_least_one("limit_label_q", expected, class_sizes)
        return round_columns(expected, class_sizes)
