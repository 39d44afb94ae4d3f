"""Norm clipping (Sun et al. 2019, section 5): the server shortens updates that are too long.

u_k <- u_k min(1, M / |u_k|),   M fixed, or the median of the lengths |u_k| of the round

It bounds what one client can do in a round and leaves the weights alone; a large enough bound is
FedAvg.
"""

from dataclasses import replace
from typing import ClassVar, Literal

from torch import Tensor
from torch.func import vmap

from unalike.algorithms.draft import Draft
from unalike.algorithms.median import middle
from unalike.algorithms.method import COUNTS_ALIKE, TO_BE_SET, Method, Slot
from unalike.cohort import Cohort
from unalike.parts.privacy.clip import clip, length
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Tree


class NormClip(Method):
    """No update is longer than a bound, so no client can push the model far in one round."""

    slot: ClassVar[Slot] = "defence"
    refuses = {Trait.NO_SERVER: COUNTS_ALIKE[Trait.NO_SERVER]}
    paper: ClassVar[str] = "Sun et al. 2019, arXiv 1911.07963"

    bound: Literal["median", "fixed"] = setting(
        "median",
        "the median length of the round, or a number",
        source="our choice: a fixed one would have to be known beforehand",
    )
    norm: float = setting(
        1.0, "the longest update, if fixed", gt=0, only={"bound": "fixed"}, source=TO_BE_SET
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        return replace(draft, filters=(*draft.filters, self))

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """As many updates with the same weights."""
        bound = self.norm if self.bound == "fixed" else middle(vmap(length)(ups))[0]
        return vmap(clip, in_dims=(0, None))(ups, bound), p
