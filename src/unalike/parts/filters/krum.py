"""Krum and Multi-Krum (Blanchard et al. 2017, section 4): trust those who have close company.

s_i = sum of |u_i - u_j|^2 over the n - f - 2 nearest j;   the m least s_i are averaged

f is how many of the n answers may be lies, 2f + 2 < n. m = 1 is Krum.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unalike import tree
from unalike.cohort import Cohort
from unalike.errors import RunError
from unalike.tree import Tree


@dataclass(frozen=True)
class Krum:
    """Keeps the ``select`` updates with the nearest neighbours; the others weigh nothing."""

    attackers: int  # f
    select: int = 1  # m

    @property
    def least(self) -> int:
        """The fewest answers it works with: n > 2f + 2, and no more chosen than can be honest."""
        return max(2 * self.attackers + 3, self.attackers + self.select)

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """The same stack with weight 1/m for the chosen."""
        n, m = len(p), self.select
        if n < self.least:
            raise RunError(
                f"round {cohort.round + 1} got {n} answers, but Krum against {self.attackers} "
                f"attackers needs {self.least}; set faults.min_replies = {self.least} to skip "
                "such rounds, or lower method.attackers."
            )
        chosen = scores(tree.gram(ups), self.attackers).argsort(stable=True)[:m]
        weights = torch.zeros_like(p)
        weights[chosen.to(p.device)] = 1 / m
        return ups, weights


def scores(gram: Tensor, attackers: int) -> Tensor:
    """Each client's sum of squared distances to its nearest neighbours, from inner products."""
    n = len(gram)
    square = gram.diagonal()
    distance = (square[:, None] + square - 2 * gram).clamp(min=0).fill_diagonal_(torch.inf)
    return distance.sort(1).values[:, : n - attackers - 2].sum(1)
