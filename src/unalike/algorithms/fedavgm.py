"""FedAvgM (Hsu et al. 2019): momentum on the server.

m <- beta m + sum_k p_k (x - x_k);   x <- x - eta m.   beta = 0, eta = 1 is FedAvg.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.optim import Sgd


class FedAvgM(Method):
    """Momentum on the server smooths the direction over rounds."""

    slot: ClassVar[Slot] = "server"
    paper: ClassVar[str] = "Hsu et al. 2019, arXiv 1909.06335"

    lr: float = Field(default=1.0, gt=0, description="server learning rate")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="server momentum beta")

    def change(self, draft: Draft) -> Draft:
        """Fill the server optimizer."""
        return replace(draft, server_opt=Sgd(self.lr, self.momentum))
