"""FedNova (Wang et al. 2020): normalised averaging for clients that take unequal steps.

x <- x - tau_eff sum_k p_k (x - x_k) / a_k,    tau_eff = sum_k p_k a_k
a_k = tau_k                                                    (plain SGD)
a_k = (tau_k - rho (1 - rho^tau_k) / (1 - rho)) / (1 - rho)    (momentum rho)
a_k <- tau_k + rho a_k                                         (Nesterov's form of it)

a_k is how far tau_k steps of rate 1 along a gradient of 1 would go.
"""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from unalike.parts.mixing.base import Cohort, Memoryless


@dataclass(frozen=True)
class Nova(Memoryless):
    """p_k tau_eff / a_k; with ``effective='steps'`` tau_eff is the mean number of steps."""

    momentum: float = 0.0
    effective: Literal["normaliser", "steps"] = "normaliser"
    nesterov: bool = False

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """Weights that need not sum to one."""
        p, tau, rho = cohort.share, cohort.stats["steps"].double(), self.momentum
        a = (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)
        if self.nesterov:
            a = tau + rho * a
        effective = p @ (a if self.effective == "normaliser" else tau)
        return p * effective / a, state
