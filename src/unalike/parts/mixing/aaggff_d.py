"""AAggFF-D (Hahn et al. 2024, Alg. 3): weights learned online when few clients answer a round.

r     = response to the losses of the received model, in [0, C], C = |S| / K
r^_i  = m + (r_i - m) / C  for i in S,  m otherwise,  m = mean of r          (doubly robust)
g     = -r^ / (1 + m) + m <p, r^ - m> / (1 + m)^2                            (linearised)
p_i  ~ exp(-sqrt(log K) / (L sqrt(n + 1)) sum g_i),  L = C + 2, n rounds seen
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike.parts.mixing.base import Cohort, Memoryless
from unalike.parts.mixing.response import Cdf, respond


class Memory(NamedTuple):
    """The summed gradients, the current decision and the number of rounds seen."""

    total: Tensor
    p: Tensor
    seen: Tensor


@dataclass(frozen=True)
class AaggffD(Memoryless):
    """Follow the regularised leader on the simplex of all clients."""

    cdf: Cdf = "normal"
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def init(self, n_clients: int) -> Memory:  # type: ignore[override]
        """The uniform decision."""
        p = torch.full((n_clients,), 1 / n_clients, dtype=torch.float64)
        return Memory(torch.zeros_like(p), p, torch.zeros((), dtype=torch.float64))

    def weights(self, state: Memory, cohort: Cohort) -> tuple[Tensor, Memory]:
        """The new decision, restricted to the cohort and renormalised."""
        total, p, seen = state
        ids = cohort.ids
        C = len(ids) / len(p)
        r = respond(cohort.stats["loss"].double(), self.cdf, 0.0, C)
        m = r.mean()
        robust = torch.full_like(p, float(m))
        robust[ids] = m + (r - m) / C
        g = -robust / (1 + m) + m * (p @ (robust - m)) / (1 + m) ** 2
        total, seen = total + g, seen + 1
        scale = math.sqrt(math.log(len(p))) / ((C + 2) * torch.sqrt(seen + 1))
        p = torch.softmax(-scale * total, 0)
        return p[ids] / p[ids].sum(), Memory(total, p, seen)
