"""Eight-bit quantisation (Alistarh et al. 2017, QSGD: stochastic rounding, no bias).

sent for each leaf of u_k: s = max |u| / 127, and u / s rounded up or down by chance to a byte
"""

from typing import ClassVar, Literal

from unalike.algorithms.compressing import REMEMBERED, Compressing, consensus_step
from unalike.algorithms.method import Slot
from unalike.parts.compression.codec import Compression
from unalike.parts.compression.values import EightBit
from unalike.settings import setting


class EightBitMethod(Compressing):
    """The numbers of an update travel as one byte each, with a scale for every leaf."""

    slot: ClassVar[Slot] = "precision"
    paper: ClassVar[str] = "Alistarh et al. 2017, arXiv 1610.02132"

    rounding: Literal["stochastic", "nearest"] = setting(
        "stochastic", "at random up or down, without bias, or to the nearest", source="text"
    )
    feedback: bool = setting(
        False, REMEMBERED, source="text: random rounding has no bias to make up for"
    )
    consensus_step: float = consensus_step(
        1.0,
        "our choice: rounding to eight bits leaves almost nothing out",
    )

    def part(self, compression: Compression) -> Compression:
        """Write bytes."""
        return compression.writing(EightBit(self.rounding), self.feedback)
