"""Krum and Multi-Krum (Blanchard et al. 2017, section 4): trust updates with close neighbours.

s_i = sum of |u_i - u_j|^2 over the n - f - 2 nearest j;   the m least s_i are averaged

f is how many of the n answers may be lies, 2f + 2 < n. m = 1 is Krum. Everybody counts the same.
"""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import COUNTS_ALIKE, Method, Slot
from unalike.cohort import Cohort
from unalike.errors import RunError
from unalike.parts.mixing.examples import Uniform
from unalike.settings import setting
from unalike.tree import Tree


class Krum(Method):
    """Only the updates with the closest neighbours count: one (Krum) or several (Multi-Krum)."""

    slot: ClassVar[Slot] = "defence"
    refuses = COUNTS_ALIKE
    paper: ClassVar[str] = "Blanchard et al. 2017, arXiv 1703.02757"

    attackers: int = setting(
        1,
        "how many answers of a round may be false",
        ge=0,
        source="our choice, to be adjusted: the fewest that need a defence",
    )
    select: int = setting(
        1, "updates averaged: 1 is Krum, more is Multi-Krum", ge=1, source="text: Krum itself"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        return replace(draft, mean=Uniform(), filters=(*draft.filters, self))

    def objection(self, draft: Draft) -> str:
        """The honest must be a clear majority."""
        n, f = draft.answers, self.attackers
        if n < 2 * f + 3:
            return (
                f"method 'krum' against {f} attackers needs at least {2 * f + 3} answers in a "
                f"round, there are {n}; lower method.attackers or let more clients take part."
            )
        if self.select > n - f:
            return (
                f"method.select = {self.select} is more than the {n - f} of {n} answers that are "
                f"certainly honest; choose at most {n - f}."
            )
        return ""

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
