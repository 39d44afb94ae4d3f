"""Norm clipping (Sun et al. 2019, section 5): nobody moves the model further than a bound.

u_k <- u_k min(1, M / |u_k|),   M fixed, or the median of the lengths |u_k| of the round
"""

from dataclasses import dataclass

from torch import Tensor
from torch.func import vmap

from unalike.cohort import Cohort
from unalike.parts.clip import clip, length
from unalike.parts.filters.median import middle
from unalike.tree import Tree


@dataclass(frozen=True)
class NormClip:
    """Long updates are shortened, whatever they weigh."""

    norm: float | None = None  # None: the median length of the round

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """As many updates with the same weights."""
        bound = middle(vmap(length)(ups))[0] if self.norm is None else self.norm
        return vmap(clip, in_dims=(0, None))(ups, bound), p
