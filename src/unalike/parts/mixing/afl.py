"""AFL's weights (Mohri et al. 2019): the worst mixture of clients is learned beside the model.

min over the model of max over p in the simplex of sum p_i F_i
p <- project(p + gamma F)           (projected ascent, F the losses of the received model)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, restricted
from unalike.parts.mixing.simplex import project


@dataclass(frozen=True)
class Agnostic(Memoryless):
    """Projected gradient ascent on the simplex of all clients.

    A client that did not answer counts with the cohort's mean loss, which leaves its weight alone.
    """

    rate: float = 0.01
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def init(self, n_clients: int) -> Tensor:  # type: ignore[override]
        """The uniform mixture."""
        return torch.full((n_clients,), 1 / n_clients, dtype=torch.float64)

    def weights(self, state: Tensor, cohort: Cohort) -> tuple[Tensor, Tensor]:
        """The new mixture, restricted to the cohort and renormalised."""
        loss = cohort.stats["loss"].double()
        step = torch.zeros_like(state).index_put((cohort.ids,), loss - loss.mean())
        p = torch.from_numpy(project((state + self.rate * step).numpy()))
        return restricted(p, cohort), p
