"""FedProx (Li et al. 2020, Alg. 2): a proximal term keeps local models near the global one.

minimise F_k(w) + mu/2 ||w - x||^2                                     (eq. 2)
mu = 0 is FedAvg. With ``adaptive`` mu follows the paper's heuristic (section 5.3.2).
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.objective import AdaptiveProximal, Proximal


class FedProx(Method):
    """A proximal term keeps local models near the global one."""

    slot: ClassVar[Slot] = "objective"
    paper: ClassVar[str] = "Li et al. 2020, arXiv 1812.06127"

    mu: float = Field(default=0.01, ge=0, description="strength of the pull, or its first value")
    adaptive: bool = Field(default=False, description="raise mu when the loss rises, else lower it")
    step: float = Field(default=0.1, gt=0, description="how much mu changes, if adaptive")
    patience: int = Field(default=5, ge=1, description="falls in a row before mu shrinks")

    def change(self, draft: Draft) -> Draft:
        """Fill the objective."""
        term = (
            AdaptiveProximal(self.mu, self.step, self.patience)
            if self.adaptive
            else Proximal(self.mu)
        )
        return replace(draft, term=term)
