"""PropFair (Zhang et al. 2022): proportional fairness, where relative gains count alike.

minimise -sum_i n_i log(M - F_i), in two forms:
weights     p_i ~ n_i / (M - F_i) on the server             (``parts/mixing/proportional.py``)
objective   clients minimise -log(1 - l/M) of every batch   (``parts/curve.py``, the authors' code)
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.fair import Fair
from unalike.algorithms.method import Draft, Method, Slot
from unalike.errors import ConfigError
from unalike.parts.curve import Bargain
from unalike.parts.mixing.proportional import Proportional

_PAPER = "Zhang et al. 2022, arXiv 2202.01666"


class PropFair(Fair):
    """Clients count by one over what is left between their loss and a baseline."""

    paper: ClassVar[str] = _PAPER

    baseline: float = Field(default=3.0, gt=0, description="the loss that is worth nothing (M)")
    floor: float = Field(
        default=0.2, gt=0, description="least M - F: clients beyond it count as if at it"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, mixing=Proportional(self.baseline, self.floor))


class PropFairLoss(Method):
    """PropFair on the clients: each minimises the logarithm of what is left to a baseline."""

    slot: ClassVar[Slot] = "objective"
    paper: ClassVar[str] = _PAPER

    baseline: float = Field(default=3.0, gt=0, description="the loss that is worth nothing (M)")
    floor: float = Field(
        default=0.2, gt=0, description="least M - l: a loss beyond it is only divided by M"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the objective."""
        if not draft.task.classifies:
            raise ConfigError(
                "method 'propfair_loss' is made for a classification loss, not for reconstruction; "
                "use 'propfair'."
            )
        curve = Bargain(self.baseline, self.floor)
        return replace(draft, task=draft.task.curved(curve))
