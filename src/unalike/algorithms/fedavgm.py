"""FedAvgM (Hsu et al. 2019): momentum on the server.

m <- beta m + sum_k p_k (x - x_k);   x <- x - eta m.   beta = 0, eta = 1 is FedAvg.
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import REPLACED_STEP, Method, Slot
from unalike.parts.optim import Sgd
from unalike.settings import setting


class FedAvgM(Method):
    """Momentum on the server smooths the direction over rounds."""

    slot: ClassVar[Slot] = "server"
    refuses = REPLACED_STEP
    paper: ClassVar[str] = "Hsu et al. 2019, arXiv 1909.06335"

    lr: float = setting(
        1.0,
        "server learning rate",
        gt=0,
        source="our choice: the whole step, as in FedAvg",
    )
    momentum: float = setting(
        0.9,
        "server momentum beta",
        ge=0,
        lt=1,
        source="our choice: the usual one of SGD; the text sweeps it",
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the server optimizer."""
        return replace(draft, server_opt=Sgd(self.lr, self.momentum))
