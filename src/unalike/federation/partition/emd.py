"""EMD sampler: a label mix with a given EMD by the Robin-Hood walk, shifted per client.

Start from a random positive vector D that sums to one; while |EMD - target| > tolerance pick
i != j with D_i >= D_j and
  EMD too small:  move U(0, D_j) from j to i            (the rich get richer)
  EMD too large:  move U(0, (D_i - D_j)/2) from i to j  (Robin Hood)
The k-th client gets D shifted by k positions, so the pooled distribution stays uniform.
"""

import numpy as np
from pydantic import Field

from unalike.errors import ConfigError
from unalike.federation.goals import Goal
from unalike.federation.partition.base import Labels, TablePartitioner
from unalike.federation.partition.keep_one import KeepOne, at_least_one
from unalike.federation.partition.label_sets import require_even
from unalike.federation.partition.rounding import round_columns


class Emd(TablePartitioner):
    """Label skew with a given EMD: one random label mix, shifted by one class per client."""

    target: float = Field(
        default=1.0, ge=0, lt=2, description="EMD of the label mix; at most 2 - 2/classes"
    )
    tolerance: float = Field(
        default=1e-3, ge=1e-9, allow_inf_nan=False, description="accepted distance from the target"
    )
    max_iterations: int = Field(
        default=1_000_000, ge=1, description="moves after which the walk gives up"
    )
    keep_one: KeepOne = False

    def goals(self, labels: Labels) -> tuple[Goal, ...]:
        """The target."""
        return (Goal("EMD", self.target),)

    def table(self, class_sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Counts by client and class."""
        classes = len(class_sizes)
        require_even("emd", self.clients, classes)
        mix, _ = robin_hood(self.target, classes, rng, self.tolerance, self.max_iterations)
        shift = (np.arange(classes) - np.arange(self.clients)[:, None]) % classes
        expected = class_sizes * mix[shift] * classes / self.clients
        if self.keep_one:
            expected = at_least_one("emd", expected, class_sizes)
        return round_columns(expected, class_sizes)


def robin_hood(
    target: float,
    classes: int,
    rng: np.random.Generator,
    tolerance: float = 1e-3,
    max_iterations: int = 1_000_000,
) -> tuple[np.ndarray, int]:
    """A label mix whose L1 distance from uniform is the target, and the moves it took."""
    highest = 2 - 2 / classes
    if not 0 <= target <= highest + 1e-12:
        raise ConfigError(
            f"emd: a target of {target:g} cannot be reached with {classes} classes; "
            f"use 0 to {highest:g}."
        )
    start = 1.0 - rng.random(classes)  # in (0, 1]
    mix = (start / start.sum()).tolist()
    mean = 1 / classes
    for iteration in range(max_iterations + 1):
        # Summed afresh, as a running sum would drift over a million moves.
        excess = sum(abs(d - mean) for d in mix) - target
        if abs(excess) <= tolerance:
            return np.array(mix), iteration
        u, v, w = rng.random(3).tolist()
        i = int(u * classes)
        j = (i + 1 + int(v * (classes - 1))) % classes
        if mix[i] < mix[j]:
            i, j = j, i
        moved = w * mix[j] if excess < 0 else -w * (mix[i] - mix[j]) / 2
        mix[i] += moved
        mix[j] -= moved
    raise ConfigError(
        f"emd: no mix within {tolerance:g} of {target:g} after {max_iterations} moves; "
        "raise tolerance or max_iterations."
    )
