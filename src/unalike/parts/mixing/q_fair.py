"""q-FedAvg's weights (Li et al. 2020, Alg. 2): updates count by a power of the loss.

D_i = L (x - x_i),   h_i = q F_i^(q-1) ||D_i||^2 + L F_i^q
x  <- x - sum_i n_i F_i^q D_i / sum_i n_i h_i                (the authors' code leaves out n_i)

so the weight of x_i - x is n_i L F_i^q / sum_j n_j h_j. The sum of h bounds the curvature of the
objective sum_i n_i F_i^(q+1), hence the weights hold the step length and do not sum to one; q = 0
is FedAvg.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless

_LEAST = 1e-10  # a loss of zero would have no power below one


@dataclass(frozen=True)
class QFair(Memoryless):
    """Powers of the loss over an estimate of curvature; L is ``lipschitz``."""

    q: float
    lipschitz: float
    by_examples: bool = True
    needs: ClassVar[frozenset[str]] = frozenset({"loss", "sqnorm"})

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """Weights that need not sum to one."""
        q, L = self.q, self.lipschitz
        F = cohort.stats["loss"].double().clamp(min=_LEAST)
        power = (F / F.max()) ** q  # the factor cancels, so that no loss is too large a power
        if self.by_examples:
            power = power * cohort.share
        h = power * (q / F * L**2 * cohort.stats["sqnorm"].double() + L)
        return L * power / h.sum(), state
