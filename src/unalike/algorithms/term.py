"""TERM (Li et al. 2021): tilted empirical risk, a smooth way from the mean to the worst loss.

minimise (1/t) log sum_i (n_i / n) exp(t F_i);   p_i ~ n_i exp(t F_i);   t = 0 is FedAvg
The rule is in ``parts/mixing/tilted.py``.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.fair import Fair
from unalike.algorithms.method import Draft
from unalike.parts.mixing.tilted import Tilted


class Term(Fair):
    """Clients count exponentially in their loss."""

    paper: ClassVar[str] = "Li et al. 2021, arXiv 2007.01162"

    tilt: float = Field(default=1.0, description="t; 0 is FedAvg, below 0 favours low losses")
    by_examples: bool = Field(
        default=True, description="times the number of examples (text), or not (authors' code)"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, mixing=Tilted(self.tilt, self.by_examples))
