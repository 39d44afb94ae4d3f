"""FedAvg's weights (McMahan et al. 2017): p_k = n_k / n, or the same for everyone."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless, Weighed


@dataclass(frozen=True)
class ByExamples(Memoryless):
    """In proportion to the number of training examples."""

    def proportion(self, stats: dict[str, Tensor]) -> Tensor:
        """n_k."""
        return stats["examples"].double()

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """n_k over the cohort's total."""
        return Weighed(cohort.share, state)


@dataclass(frozen=True)
class Uniform(Memoryless):
    """The same for every client of the cohort."""

    def proportion(self, stats: dict[str, Tensor]) -> Tensor:
        """One."""
        return torch.ones_like(stats["examples"], dtype=torch.float64)

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """One over the number of answers."""
        return Weighed(torch.full_like(cohort.share, 1 / len(cohort.ids)), state)
