"""PropFair's weights (Zhang et al. 2022): relative gains of all clients count alike.

minimise -sum_i n_i log(M - F_i), whose gradient is sum_i n_i / (M - F_i) grad F_i
p_i ~ n_i / max(M - F_i, floor)

Losses above M - floor would get unbounded or negative weights. There the logarithm is continued by
its tangent, as if those clients' losses were M - floor: they count most, and finitely.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from unalike.cohort import Cohort
from unalike.parts.mixing.base import Memoryless


@dataclass(frozen=True)
class Proportional(Memoryless):
    """Sizes over what is left of the ``baseline`` M."""

    baseline: float = 3.0
    floor: float = 0.2
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def weights(self, state: Any, cohort: Cohort) -> tuple[Tensor, Any]:
        """Normalised over the cohort."""
        left = (self.baseline - cohort.stats["loss"].double()).clamp(min=self.floor)
        p = cohort.share / left
        return p / p.sum(), state
