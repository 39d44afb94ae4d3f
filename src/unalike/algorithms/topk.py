"""Top-k sparsification with error feedback (Stich et al. 2018, Alg. 1; Aji & Heafield 2017).

v_k <- u_k + e_k;   sent: the share of v_k's entries that are largest in size;   e_k <- the others

The parts are in ``parts/compression``. A share of 1 is no compression.
"""

from typing import ClassVar

from unalike.algorithms.compressing import REMEMBERED, Compressing, consensus_step
from unalike.algorithms.method import Slot
from unalike.parts.compression.codec import Compression
from unalike.parts.compression.select import TopK
from unalike.settings import setting


class TopKMethod(Compressing):
    """Only the largest entries of an update travel; the others are remembered and sent later."""

    slot: ClassVar[Slot] = "sparsity"
    paper: ClassVar[str] = "Stich et al. 2018, arXiv 1809.07599"

    share: float = setting(
        0.01,
        "share of the entries that travel; 1 is no compression",
        gt=0,
        le=1,
        source="our choice: Aji & Heafield drop 99 % of the entries",
    )
    feedback: bool = setting(True, REMEMBERED, source="text, Algorithm 1")
    consensus_step: float = consensus_step(
        0.04,
        "authors' code of CHOCO-SGD for this share on a ring of 9",
    )

    def part(self, compression: Compression) -> Compression:
        """Choose entries."""
        if self.share == 1:
            return compression
        return compression.choosing(TopK(self.share), self.feedback)
