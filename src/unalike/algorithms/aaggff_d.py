"""AAggFF-D (Hahn et al. 2024, Alg. 3): weights learned online when few clients answer a round.

r     = response to the losses of the received model, in [0, C], C = |S| / K
r^_i  = m + (r_i - m) / C  for i in S,  m otherwise,  m = mean of r          (doubly robust)
g     = -r^ / (1 + m) + m <p, r^ - m> / (1 + m)^2                            (linearised)
p_i  ~ exp(-sqrt(log K) / (L sqrt(n + 1)) sum g_i),  L = C + 2, n rounds seen

Clients outside S share one value of g, so only the softmax touches all of them. Regret is measured
on what the rule follows, the linearised losses <g, p>: the best fixed p is a corner, so two sums
suffice. The response is in ``parts/mixing/response.py``, the bound in ``parts/mixing/regret.py``.
"""

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import ONE_LEARNER, WeightRule, new_neighbours
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Weighed, restricted
from unalike.parts.mixing.regret import bound_d
from unalike.parts.mixing.response import Cdf, respond
from unalike.settings import setting


class Memory(NamedTuple):
    """The summed gradients, the current decision, the rounds seen, and what regret needs."""

    total: Tensor
    p: Tensor
    seen: Tensor
    paid: Tensor  # sum of <g, p>
    widest: Tensor  # largest C


class AAggFFD(WeightRule):
    """Weights follow the clients' losses online; for cohorts that are small samples."""

    refuses = ONE_LEARNER
    learns: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})
    paper: ClassVar[str] = "Hahn et al. 2024, arXiv 2405.20821"

    cdf: Cdf = setting(
        "normal",
        "how a loss becomes a response",
        source="our choice: as for AAggFF-S; the authors choose one per dataset",
    )

    def objection(self, draft: Draft) -> str:
        """Neighbours must stay the same."""
        return new_neighbours(draft)

    def init(self, n_clients: int) -> Memory:
        """The uniform decision."""
        p = torch.full((n_clients,), 1 / n_clients, dtype=torch.float64)
        nothing = torch.zeros((), dtype=torch.float64)
        return Memory(torch.zeros_like(p), p, nothing, nothing, nothing)

    def weights(self, state: Memory, cohort: Cohort) -> Weighed:
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
        logged: dict[str, float | Tensor] = {
            "regret": float(paid - total.min()),
            "regret_bound": bound_d(int(seen), K, float(widest) + 2),
            "decision": p[ids],
        }
        memory = Memory(total, p, seen, paid, widest)
        return Weighed(restricted(p, cohort), memory, logged=logged)
