"""AAggFF-D (Hahn et al. 2024, Alg. 3): weights learned online when few clients answer a round.

r     = response to the losses of the received model, in [0, C], C = |S| / K
r^_i  = m + (r_i - m) / C  for i in S,  m otherwise,  m = mean of r          (doubly robust)
g     = -r^ / (1 + m) + m <p, r^ - m> / (1 + m)^2                            (linearised)
p_i  ~ exp(-sqrt(log K) / (L sqrt(n + 1)) sum g_i),  L = C + 2, n rounds seen

Clients outside S share one value of g, so only the softmax touches all of them. Regret is of what
the rule follows, the linearised losses <g, p>: the best fixed p is a corner, and two sums tell all.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, restricted
from unalike.parts.mixing.regret import bound_d
from unalike.parts.mixing.response import Cdf, respond


class Memory(NamedTuple):
    """The summed gradients, the current decision, the rounds seen, and what regret needs."""

    total: Tensor
    p: Tensor
    seen: Tensor
    paid: Tensor  # sum of <g, p>
    widest: Tensor  # largest C


@dataclass(frozen=True)
class AaggffD(Memoryless):
    """Follow the regularised leader on the simplex of all clients."""

    cdf: Cdf = "normal"
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def init(self, n_clients: int) -> Memory:  # type: ignore[override]
        """The uniform decision."""
        p = torch.full((n_clients,), 1 / n_clients, dtype=torch.float64)
        nothing = torch.zeros((), dtype=torch.float64)
        return Memory(torch.zeros_like(p), p, nothing, nothing, nothing)

    def weights(self, state: Memory, cohort: Cohort) -> tuple[Tensor, Memory]:
        """The new decision, restricted to the cohort and renormalised."""
        total, p, seen, paid, widest = state
        ids, K = cohort.ids, len(p)
        C = len(ids) / K
        r = respond(cohort.stats["loss"].double(), self.cdf, 0.0, C)
        m = r.mean()
        beyond = (r - m) / C  # r^ - m, zero for everybody else
        inner = p[ids] @ beyond
        common = -m / (1 + m) + m * inner / (1 + m) ** 2
        paid, widest = paid + common - inner / (1 + m), widest.clamp(min=C)
        total, seen = total + common, seen + 1
        total[ids] -= beyond / (1 + m)
        scale = math.sqrt(math.log(K)) / ((C + 2) * torch.sqrt(seen + 1))
        p = torch.softmax(-scale * total, 0)
        return restricted(p, cohort), Memory(total, p, seen, paid, widest)

    def logged(self, state: Memory) -> dict[str, float]:
        """The regret so far and its bound."""
        bound = bound_d(int(state.seen), len(state.p), float(state.widest) + 2)
        return {"regret": float(state.paid - state.total.min()), "regret_bound": bound}
