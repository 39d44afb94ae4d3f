"""AFL (Mohri et al. 2019): a model that is good for the worst mixture of clients.

min over x of max over p in the simplex of sum_i p_i F_i(x)
p <- project(p + gamma F)           (projected ascent, F the losses of the received model)

A client that did not answer is given the cohort's mean loss, which leaves its weight unchanged. The
projection is in ``parts/mixing/simplex.py``.
"""

from typing import ClassVar

import torch
from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import ONE_LEARNER, WeightRule, new_neighbours
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Weighed, restricted
from unalike.parts.mixing.simplex import project
from unalike.settings import setting


class Afl(WeightRule):
    """Weights climb towards the clients with the highest loss, without bound."""

    refuses = ONE_LEARNER
    learns: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})
    paper: ClassVar[str] = "Mohri et al. 2019, arXiv 1902.00146"

    rate: float = setting(
        0.01,
        "step of the ascent on weights (gamma)",
        ge=0,
        source="the released commands of AAggFF, which has it as a baseline",
    )

    def objection(self, draft: Draft) -> str:
        """Neighbours must stay the same."""
        return new_neighbours(draft)

    def init(self, n_clients: int) -> Tensor:
        """The uniform mixture."""
        return torch.full((n_clients,), 1 / n_clients, dtype=torch.float64)

    def weights(self, state: Tensor, cohort: Cohort) -> Weighed:
        """The new mixture, restricted to the cohort and renormalised."""
        loss = cohort.stats["loss"].double()
        step = torch.zeros_like(state).index_put((cohort.ids,), loss - loss.mean())
        p = torch.from_numpy(project((state + self.rate * step).numpy()))
        return Weighed(restricted(p, cohort), p)
