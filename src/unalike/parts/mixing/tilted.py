"""TERM's weights (Li et al. 2021): clients count exponentially in their loss.

p_i ~ n_i exp(t F_i): the gradient of (1/t) log sum_i (n_i / n) exp(t F_i);  t = 0 is FedAvg
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless


@dataclass(frozen=True)
class Tilted(Memoryless):
    """A softmax of the losses, times the sizes if ``by_examples``."""

    tilt: float = 1.0
    by_examples: bool = True
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """In logarithms, so that no loss is too large."""
        tilted = self.tilt * cohort.stats["loss"].double()
        if self.by_examples:
            tilted = tilted + cohort.share.log()
        return torch.softmax(tilted, 0), state
