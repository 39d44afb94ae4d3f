"""FedMGDA+'s weights (Hu et al. 2022): a direction along which no client's loss rises.

d_i = (x - x_i) / ||x - x_i||                                          (normalised updates)
l   = argmin ||sum_i l_i d_i||^2 over the simplex with |l_i - 1/n| <= epsilon
x  <- x - eta sum_i l_i d_i

The uniform point satisfies every constraint, so there is always a minimiser. A client that did not
move has no direction: it adds nothing to the sum.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless
from unalike.parts.mixing.simplex import minimise

_RIDGE = 1e-10  # picks the most even of several minimisers: directions may be linearly dependent


@dataclass(frozen=True)
class CommonDescent(Memoryless):
    """eta l_i / ||x - x_i||, from the inner products of all pairs of updates."""

    epsilon: float = 0.1
    lr: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"gram"})

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """Weights that do not sum to one: they turn updates into unit directions."""
        gram = cohort.stats["gram"].double()
        length = gram.diagonal().sqrt()
        length = torch.where(length > 0, length, 1.0)
        cosines = gram / torch.outer(length, length)
        cosines = cosines + _RIDGE * torch.eye(len(length), dtype=torch.float64)
        share = minimise(cosines.numpy(), torch.zeros_like(length).numpy(), within=self.epsilon)
        return self.lr * torch.from_numpy(share) / length, state
