"""AFL (Mohri et al. 2019): a model that is good for the worst mixture of clients.

min over x of max over p in the simplex of sum_i p_i F_i(x);   p <- project(p + gamma F)
The rule is in ``parts/mixing/afl.py``, the projection in ``parts/mixing/simplex.py``.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.fair import Fair
from unalike.algorithms.method import Draft
from unalike.parts.mixing.afl import Agnostic


class Afl(Fair):
    """Weights climb towards the clients with the highest loss, without bound."""

    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # one learner sees all losses
    paper: ClassVar[str] = "Mohri et al. 2019, arXiv 1902.00146"

    rate: float = Field(default=0.01, ge=0, description="step of the ascent on weights (gamma)")

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, mixing=Agnostic(self.rate))
