"""TERM (Li et al. 2021): tilted empirical risk, a smooth way from the mean to the worst loss.

minimise (1/t) log sum_i (n_i / n) exp(t F_i);   p_i ~ n_i exp(t F_i), its gradient's weights
t = 0 is FedAvg
"""

from typing import Any, ClassVar

import torch

from unalike.algorithms.method import BY_EXAMPLES, WeightRule
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Weighed
from unalike.settings import setting


class Term(WeightRule):
    """Clients count exponentially in their loss."""

    needs: ClassVar[frozenset[str]] = frozenset({"loss"})
    paper: ClassVar[str] = "Li et al. 2021, arXiv 2007.01162"

    tilt: float = setting(
        1.0,
        "t; 0 is FedAvg, below 0 favours low losses",
        source="our choice: the middle one of 0.1, 1 and 10, which AAggFF's authors tune over",
    )
    by_examples: bool = BY_EXAMPLES

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """In logarithms, so that no loss is too large."""
        tilted = self.tilt * cohort.stats["loss"].double()
        if self.by_examples:
            tilted = tilted + cohort.share.log()
        return Weighed(torch.softmax(tilted, 0), state)
