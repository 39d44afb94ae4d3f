"""Coordinate-wise trimmed mean (Yin et al. 2018, option II of Alg. 1).

u_j = mean of u_1j, ..., u_nj without the b largest and the b smallest,   b = floor(trim n)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unalike import tree
from unalike.cohort import Cohort
from unalike.tree import Tree


@dataclass(frozen=True)
class TrimmedMean:
    """One update, made of the mean of what is left of every coordinate on trimming both ends."""

    trim: float  # share of the answers cut off at each end, below one half

    def cut(self, n: int) -> int:
        """b; the guard keeps 0.29 x 100 from becoming 28."""
        return int(self.trim * n + 1e-9)

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """A stack of one row, with weight one."""
        n = len(p)
        b = self.cut(n)
        mean = tree.map(lambda x: x.sort(0).values[b : n - b].mean(0, keepdim=True), ups)
        return mean, torch.ones_like(p[:1])
