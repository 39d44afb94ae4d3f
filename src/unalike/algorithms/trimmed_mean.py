"""Coordinate-wise trimmed mean of the updates (Yin et al. 2018, option II of Alg. 1).

u_j = mean of u_1j, ..., u_nj without the b largest and the b smallest,   b = floor(trim n)

It withstands a share of attackers up to ``trim``; all clients count the same.
"""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import COUNTS_ALIKE, TO_BE_SET, Method, Slot
from unalike.cohort import Cohort
from unalike.parts.mixing.examples import Uniform
from unalike.settings import setting
from unalike.tree import Tree


class TrimmedMean(Method):
    """The mean of every coordinate without its extremes at both ends."""

    slot: ClassVar[Slot] = "defence"
    refuses = COUNTS_ALIKE
    paper: ClassVar[str] = "Yin et al. 2018, arXiv 1803.01498"

    trim: float = setting(
        0.2, "share of the answers cut off at each end", ge=0, lt=0.5, source=TO_BE_SET
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        return replace(draft, mean=Uniform(), filters=(*draft.filters, self))

    def objection(self, draft: Draft) -> str:
        """A share of so few answers may be none."""
        n = draft.answers
        if not self.trim or self.cut(n):
            return ""
        least = -(-1000 // n) / 1000  # rounded up, so that it is enough
        way = f"set it to at least {least:g}, or let more" if n > 2 else "let at least three"
        return (
            f"method.trim = {self.trim:g} cuts off none of the {n} answers of a round; {way} "
            "clients take part."
        )

    def cut(self, n: int) -> int:
        """b; the guard keeps 0.29 x 100 from becoming 28."""
        return int(self.trim * n + 1e-9)

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """A stack of one row, with weight one."""
        n = len(p)
        b = self.cut(n)
        mean = tree.map(lambda x: x.sort(0).values[b : n - b].mean(0, keepdim=True), ups)
        return mean, torch.ones_like(p[:1])
