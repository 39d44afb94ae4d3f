"""What seeds cannot show, because all of them use the same rows.

The spread over seeds is that of one dataset. Two rules of equal merit differ on any finite set of
rows, and that difference is the same under every seed, so a test over seeds alone takes it for a
difference between the methods, with more certainty the more seeds there are. The variance of a mean
over n seeds for fresh rows is

    s^2 / n + ratio s^2 + rows

ratio   tested rows / trained rows, where every seed draws a new split of the same rows
        (Nadeau and Bengio 2003, Inference for the generalization error, section 5)
rows    (a (1 - a) + b (1 - b)) / N, where all seeds share one test set of N rows and a and b are
        shares of its rows: the variance if methods erred on different rows independently. Methods
        err on the same hard rows, so it is an upper bound.
"""

from typing import NamedTuple

import numpy as np

from unalike.compare.statistics.known import Array


class Reuse(NamedTuple):
    """How the seeds of a condition use rows again; by default not at all."""

    ratio: float = 0.0
    fixed: int | None = None  # rows of the test set that all seeds share

    def rows(self, *shares: Array) -> Array:
        """The variance of a difference, or of a single mean, over test sets of this size."""
        total = np.zeros(np.broadcast_shapes(*(s.shape for s in shares)))
        if self.fixed is None:
            return total
        for share in shares:
            total = total + share * (1 - share) / self.fixed
        return np.maximum(total, 0.0)


def resplit(test: float, validation: float = 0.0) -> Reuse:
    """Every seed tests another share of the same rows.

    >>> resplit(0.2, 0.1).ratio == 0.2 / 0.7
    True
    """
    return Reuse(test / (1 - (test + validation)))
