"""Random masks (Konecny et al. 2016, section 3: subsampling of the update).

sent: n / k times the entries of u_k at k random places, and the seed of the places, so that the
mean over all masks is u_k; with error feedback the entries as they are, and e_k <- the others
"""

from typing import ClassVar

from unalike.algorithms.compressing import REMEMBERED, Compressing, consensus_step
from unalike.algorithms.method import Slot
from unalike.parts.compression.codec import Compression
from unalike.parts.compression.select import RandomMask
from unalike.settings import setting


class RandomMaskMethod(Compressing):
    """Random entries of an update travel, with the seed that chose them."""

    slot: ClassVar[Slot] = "sparsity"
    paper: ClassVar[str] = "Konecny et al. 2016, arXiv 1610.05492"

    share: float = setting(
        0.1,
        "share of the entries that travel; 1 is no compression",
        gt=0,
        le=1,
        source="our choice: a tenth",
    )
    feedback: bool = setting(
        False, REMEMBERED, source="text: entries are scaled instead, so that the mean is right"
    )
    consensus_step: float = consensus_step(
        0.1,
        "our choice: the share, as the authors' code of CHOCO-SGD has for 1 %",
    )

    def part(self, compression: Compression) -> Compression:
        """Choose entries."""
        if self.share == 1:
            return compression
        return compression.choosing(RandomMask(self.share), self.feedback)
