"""FedNova (Wang et al. 2020): normalised averaging for clients that take unequal steps.

x <- x - eta tau_eff sum_k p_k (x - x_k) / a_k,    tau_eff = sum_k p_k a_k / sum_k p_k
a_k = tau_k                                                    (plain SGD)
a_k = (tau_k - rho (1 - rho^tau_k) / (1 - rho)) / (1 - rho)    (momentum rho)
a_k <- tau_k + rho a_k                                         (Nesterov's form of it)

a_k is how far tau_k steps of rate 1 along a gradient of 1 would go. p_k is n_k / n or what another
rule makes of it; where all a_k are equal, eta p_k is what is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Gauge, Mixing, Question
from unalike.parts.mixing.examples import ByExamples

_LEAST = torch.finfo(torch.float64).tiny  # where a rule gives nobody a weight


@dataclass(frozen=True)
class Nova:
    """eta p_k tau_eff / a_k; with ``effective='steps'`` tau_eff is the mean number of steps."""

    momentum: float = 0.0
    effective: Literal["normaliser", "steps"] = "normaliser"
    nesterov: bool = False
    server_lr: float = 1.0
    rule: Mixing = ByExamples()

    @property
    def needs(self) -> frozenset[str]:
        """The rule's."""
        return self.rule.needs

    @property
    def survey(self) -> tuple[Question, ...]:
        """The rule's."""
        return self.rule.survey

    @property
    def gauges(self) -> Mapping[str, Gauge]:
        """The rule's."""
        return self.rule.gauges

    def init(self, n_clients: int) -> Any:
        """The rule's memory."""
        return self.rule.init(n_clients)

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """Weights that need not sum to one."""
        p, state = self.rule.weights(state, cohort)
        tau, rho = cohort.stats["steps"].double(), self.momentum
        a = (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)
        if self.nesterov:
            a = tau + rho * a
        effective = p @ (a if self.effective == "normaliser" else tau) / p.sum().clamp(min=_LEAST)
        return self.server_lr * p * effective / a, state

    def note(self, before: Any, after: Any) -> str:
        """The rule's."""
        return self.rule.note(before, after)

    def logged(self, state: Any) -> dict[str, float]:
        """The rule's."""
        return self.rule.logged(state)
