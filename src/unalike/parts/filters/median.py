"""Coordinate-wise median (Yin et al. 2018, option I of Alg. 1).

u_j = median of u_1j, ..., u_nj                    (the mean of the middle two if n is even)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unalike import tree
from unalike.cohort import Cohort
from unalike.tree import Tree


@dataclass(frozen=True)
class Median:
    """One update, made of the median of every coordinate; everybody counts the same."""

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
