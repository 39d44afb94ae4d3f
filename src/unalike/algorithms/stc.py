"""Sparse ternary compression (Sattler et al. 2019).

v_k <- u_k + e_k;   T the k = max(n p, 1) entries that are largest in size
sent: mu sign(v_k) on T, mu = mean of |v_k| on T, with the places in a Golomb code
e_k <- v_k - mu sign(v_k) on T, v_k elsewhere
"""

from typing import ClassVar

from unalike.algorithms.compressing import REMEMBERED, Compressing, consensus_step
from unalike.algorithms.method import Slot
from unalike.parts.compression.codec import Compression
from unalike.parts.compression.select import TopK
from unalike.parts.compression.values import Sign
from unalike.settings import setting
from unalike.traits import Trait


class Stc(Compressing):
    """The largest entries travel as signs and one mean, their positions in a Golomb code."""

    slot: ClassVar[Slot] = "sparsity"
    traits = frozenset({Trait.WRITES_FEW_BITS})  # also beside a method that writes signs
    paper: ClassVar[str] = "Sattler et al. 2019, arXiv 1903.02891"

    share: float = setting(
        0.0025,
        "share p of the entries that travel",
        gt=0,
        lt=1,
        source="text: p = 1/400 in the experiments",
    )
    feedback: bool = setting(True, REMEMBERED, source="text")
    consensus_step: float = consensus_step(
        0.01,
        "our choice: four times the share, as the authors' code of CHOCO-SGD has for top-k",
    )

    def part(self, compression: Compression) -> Compression:
        """Choose entries, and write their signs."""
        chosen, keep = TopK(self.share, "golomb"), self.feedback
        return compression.choosing(chosen, keep).writing(Sign(), keep)
