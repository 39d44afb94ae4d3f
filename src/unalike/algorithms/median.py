"""Coordinate-wise median of the updates (Yin et al. 2018, option I of Alg. 1).

u_j = median of u_1j, ..., u_nj                    (the mean of the middle two if n is even)

All clients count the same: claiming many examples gives a client no more influence.
"""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import COUNTS_ALIKE, Method, Slot
from unalike.cohort import Cohort
from unalike.parts.mixing.examples import Uniform
from unalike.tree import Tree


class Median(Method):
    """The median of every coordinate: fewer than half of the clients cannot move it far."""

    slot: ClassVar[Slot] = "defence"
    refuses = COUNTS_ALIKE
    paper: ClassVar[str] = "Yin et al. 2018, arXiv 1803.01498"

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        return replace(draft, mean=Uniform(), filters=(*draft.filters, self))

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """A stack of one row, with weight one."""
        return tree.map(middle, ups), torch.ones_like(p[:1])


def middle(x: Tensor) -> Tensor:
    """The median along the first axis, which is kept.

    >>> middle(torch.tensor([1.0, 9.0, 2.0, 4.0]))
    tensor([3.])
    """
    n = len(x)
    ordered = x.sort(0).values
    return (ordered[(n - 1) // 2] + ordered[n // 2])[None] / 2
