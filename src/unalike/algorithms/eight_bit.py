"""Eight-bit quantisation (Alistarh et al. 2017, QSGD: stochastic rounding, no bias).

sent for each leaf of u_k: s = max |u| / 127, and u / s rounded up or down by chance to a byte
"""

from typing import ClassVar, Literal

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
from unalike.parts.compression.values import EightBit
from unalike.settings import setting


class EightBitMethod(Method):
    """Numbers of an update travel as one byte each, with a scale for every leaf."""

    slot: ClassVar[Slot] = "precision"
    refuses = TO_A_SERVER
    paper: ClassVar[str] = "Alistarh et al. 2017, arXiv 1610.02132"

    rounding: Literal["stochastic", "nearest"] = setting(
        "stochastic", "up or down by chance, without bias, or to the nearest", source="text"
    )
    feedback: bool = setting(
        False, REMEMBERED, source="text: rounding by chance has no bias to make up for"
    )
    direction: Direction = DIRECTION

    def change(self, draft: Draft) -> Draft:
        """Write bytes."""
        written = EightBit(self.rounding)
        return compressed(draft, self.direction, lambda c: c.writing(written, self.feedback))
