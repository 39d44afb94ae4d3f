"""q-FedAvg (Li et al. 2020, Alg. 2): clients with a higher loss count more, by a power of it.

minimise sum_i (n_i / n) F_i^(q+1) / (q+1);   q = 0 is FedAvg
D_i = L (x - x_i),   h_i = q F_i^(q-1) ||D_i||^2 + L F_i^q
x  <- x - sum_i n_i F_i^q D_i / sum_i n_i h_i                (the authors' code leaves out n_i)

so the weight of x_i - x is n_i L F_i^q / sum_j n_j h_j. The sum of h bounds the curvature of the
objective, hence the weights hold the step length and do not sum to one. L is one over the learning
rate; where that falls over rounds L stays at the first one, as in the authors' code.
"""

from dataclasses import replace
from typing import Any, ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import BY_EXAMPLES, FOR_UPDATES, WeightRule, plain_sgd
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Weighed
from unalike.settings import setting
from unalike.traits import Trait

_LEAST = 1e-10  # a loss of zero would have no power below one


class QFedAvg(WeightRule):
    """Updates count by a power of the loss, over an estimate of curvature."""

    traits = frozenset({Trait.STEP_IN_WEIGHTS})
    refuses = FOR_UPDATES
    needs: ClassVar[frozenset[str]] = frozenset({"loss", "sqnorm"})
    scaled: ClassVar[bool] = True
    paper: ClassVar[str] = "Li et al. 2020, arXiv 1905.10497"

    q: float = setting(
        1.0,
        "power of the loss; 0 is FedAvg",
        ge=0,
        source="our choice: the middle one of 0.1, 1 and 5, which AAggFF's authors tune over",
    )
    by_examples: bool = BY_EXAMPLES
    lipschitz: float | None = setting(
        None,
        "L; unset: one over the first learning rate",
        gt=0,
        source="text and authors' code: one over the learning rate",
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights; only plain SGD's learning rate says what L is."""
        L = self.lipschitz or 1 / draft.opt.lr
        return replace(draft, weights=self.model_copy(update={"lipschitz": L}))

    def objection(self, draft: Draft) -> str:
        """Another optimizer's rate is not one over L."""
        return "" if self.lipschitz else plain_sgd(draft, "qfedavg")

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Weights that need not sum to one."""
        q, L = self.q, self.lipschitz
        assert L is not None, "set when the draft was changed"
        F = cohort.stats["loss"].double().clamp(min=_LEAST)
        power = (F / F.max()) ** q  # the factor cancels, so that no loss is too large a power
        if self.by_examples:
            power = power * cohort.share
        h = power * (q / F * L**2 * cohort.stats["sqnorm"].double() + L)
        return Weighed(L * power / h.sum(), state)
