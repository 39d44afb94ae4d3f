"""AAggFF-D (Hahn et al. 2024): fair weights learned online from the clients' losses.

The decision rule is in ``parts/mixing/aaggff_d.py``, its response in ``parts/mixing/response.py``.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.mixing.aaggff_d import AaggffD
from unalike.parts.mixing.response import Cdf


class AAggFFD(Method):
    """Weights follow the clients' losses online, made for cohorts that are small samples."""

    slot: ClassVar[Slot] = "weights"
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # one learner sees all losses
    paper: ClassVar[str] = "Hahn et al. 2024, arXiv 2405.20821"

    cdf: Cdf = Field(default="normal", description="how a loss becomes a response")

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, mixing=AaggffD(self.cdf))
