"""Limit-label sampler ll(t, f): a share f of each label goes to its owners alone.

Omega_k: the t priority labels of client k; every label has tK/M owners.

p_k(y) = f/t + (1-f)/M   for y in Omega_k
p_k(y) = (1-f)/M         otherwise
EMD    = 2f (1 - t/M)    against a uniform pooled distribution
"""

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError, DataError
from unalike.federation.partition.base import TablePartitioner
from unalike.federation.partition.label_sets import priority_labels
from unalike.federation.partition.rounding import round_columns


class LimitLabel(TablePartitioner):
    """Label skew by t priority labels per client that hold a share f of the data."""

    t: int = Field(default=2, ge=1, description="priority labels per client")
    f: float = Field(
        default=1.0, ge=0, le=1, description="share of each label that only its owners get"
    )
    keep_one: bool = Field(
        default=False, description="give every client at least one example of each class"
    )

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
        if self.keep_one:
            expected = _at_least_one(expected, class_sizes)
        return round_columns(expected, class_sizes)


def _at_least_one(expected: np.ndarray, class_sizes: np.ndarray) -> np.ndarray:
    """Entries below one lifted to one, at the cost of the others of the class."""
    clients = len(expected)
    scarce = np.flatnonzero((class_sizes > 0) & (class_sizes < clients))
    if len(scarce):
        raise DataError(
            f"limit_label: keep_one needs {clients} examples of each class and class {scarce[0]} "
            f"has {class_sizes[scarce[0]]}; use fewer clients or keep_one = false."
        )
    low = (expected < 1) & (class_sizes > 0)
    rest = np.where(low, 0.0, expected)
    scale = (class_sizes - low.sum(axis=0)) / np.maximum(rest.sum(axis=0), 1.0)
    return np.where(low, 1.0, rest * scale)
