"""Sparse ternary compression (Sattler et al. 2019).

v_k <- u_k + e_k;   T the k = max(n p, 1) entries that are largest in size
sent: mu sign(v_k) on T, mu = mean of |v_k| on T, with the places in a Golomb code
e_k <- v_k - mu sign(v_k) on T, v_k elsewhere
"""

from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import (
    DIRECTION,
    REMEMBERED,
    TO_A_SERVER,
    Direction,
    Method,
    Slot,
    compressed,
)
from unalike.parts.compression.select import TopK
from unalike.parts.compression.values import Sign
from unalike.settings import setting
from unalike.traits import Trait


class Stc(Method):
    """The largest entries travel as signs times their mean size, their places in a Golomb code."""

    slot: ClassVar[Slot] = "sparsity"
    traits = frozenset({Trait.WRITES_FEW_BITS})  # also beside a method that writes signs
    refuses = TO_A_SERVER
    paper: ClassVar[str] = "Sattler et al. 2019, arXiv 1903.02891"

    share: float = setting(
        0.0025,
        "share p of the entries that travel",
        gt=0,
        lt=1,
        source="text: p = 1/400 in the experiments",
    )
    feedback: bool = setting(True, REMEMBERED, source="text")
    direction: Direction = DIRECTION

    def change(self, draft: Draft) -> Draft:
        """Choose entries, and write their signs."""
        chosen, keep = TopK(self.share, "golomb"), self.feedback
        return compressed(
            draft, self.direction, lambda c: c.choosing(chosen, keep).writing(Sign(), keep)
        )
