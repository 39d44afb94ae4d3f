"""Limit-label sampler ll(t, f): a share f of each label goes to its owners alone.

Omega_k: the t priority labels of client k; every label has tK/M owners.

p_k(y) = f/t + (1-f)/M   for y in Omega_k
p_k(y) = (1-f)/M         otherwise
EMD    = 2f (1 - t/M)    against a uniform pooled distribution

Where f = 1 every client still gets one example of each class, unless told otherwise: the thesis
does so since FedAug has to start from something. This lowers the EMD by 2 (M - t) K / N.
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
    keep_one: bool | None = Field(
        default=None,
        description="give every client at least one example of each class; left out: where f = 1 "
        "and no class has fewer examples than there are clients",
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
        if self._keeps_one(class_sizes):
            expected = _at_least_one(expected, class_sizes)
        return round_columns(expected, class_sizes)

    def _keeps_one(self, class_sizes: np.ndarray) -> bool:
        if self.keep_one is None:
            return self.f == 1 and not len(_scarce(class_sizes, self.clients))
        return self.keep_one


def _scarce(class_sizes: np.ndarray, clients: int) -> np.ndarray:
    """The classes that have examples, but not one for each client."""
    return np.flatnonzero((class_sizes > 0) & (class_sizes < clients))


def _at_least_one(expected: np.ndarray, class_sizes: np.ndarray) -> np.ndarray:
    """Entries below one lifted to one, at the cost of the others of the class."""
    clients = len(expected)
    scarce = _scarce(class_sizes, clients)
    if len(scarce):
        raise DataError(
            f"limit_label: keep_one needs {clients} examples of each class and class {scarce[0]} "
            f"has {class_sizes[scarce[0]]}; use fewer clients or keep_one = false."
        )
    low = (expected < 1) & (class_sizes > 0)
    rest = np.where(low, 0.0, expected)
    scale = (class_sizes - low.sum(axis=0)) / np.maximum(rest.sum(axis=0), 1.0)
    return np.where(low, 1.0, rest * scale)
