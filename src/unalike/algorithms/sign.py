"""One-bit quantisation: signs, with error feedback (Karimireddy et al. 2019, Alg. 1, EF-signSGD).

v_k <- u_k + e_k;   sent for each leaf: mean |v| sign(v);   e_k <- v_k - mean |v| sign(v)
"""

from typing import ClassVar

from unalike.algorithms.compressing import REMEMBERED, Compressing, consensus_step
from unalike.algorithms.method import Slot
from unalike.parts.compression.codec import Compression
from unalike.parts.compression.values import Sign
from unalike.settings import setting
from unalike.traits import Trait


class SignMethod(Compressing):
    """The numbers of an update travel as one bit each: their sign, with one mean for every leaf."""

    slot: ClassVar[Slot] = "precision"
    traits = frozenset({Trait.WRITES_FEW_BITS})  # also beside a method that writes signs
    paper: ClassVar[str] = "Karimireddy et al. 2019, arXiv 1901.09847"

    feedback: bool = setting(
        True, REMEMBERED, source="text, Algorithm 1; false is signSGD with the scale of its leaves"
    )
    consensus_step: float = consensus_step(
        0.3,
        "our choice: less than the 0.34 of the authors' code of CHOCO-SGD for four bits",
    )

    def part(self, compression: Compression) -> Compression:
        """Write bits."""
        return compression.writing(Sign(), self.feedback)
