"""PropFair (Zhang et al. 2022): proportional fairness, where relative gains count equally.

minimise -sum_i n_i log(M - F_i), in two forms:
weights     p_i ~ n_i / max(M - F_i, floor) on the server, the weights of its gradient
objective   clients minimise -log(1 - l/M) of every minibatch's loss l, or l/M where M - l < floor
            (the authors' code)

Losses above M - floor would get unbounded or negative weights. There the logarithm is continued by
its tangent, as if those clients' losses were M - floor: they count most, and finitely.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, Slot, WeightRule
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Weighed
from unalike.settings import setting
from unalike.traits import Trait

_PAPER = "Zhang et al. 2022, arXiv 2202.01666"
_MIDDLE = "our choice: the middle one of 2, 3 and 5, which AAggFF's authors tune over"
_RELEASED = "the released code of AAggFF, which has it as a baseline"


class PropFair(WeightRule):
    """Clients count inversely to the distance of their loss from a baseline."""

    needs: ClassVar[frozenset[str]] = frozenset({"loss"})
    paper: ClassVar[str] = _PAPER

    baseline: float = setting(3.0, "the loss that counts as worthless (M)", gt=0, source=_MIDDLE)
    floor: float = setting(
        0.2, "smallest M - F: clients beyond it count as if at it", gt=0, source=_RELEASED
    )

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Normalised over the cohort; notes how many losses lie beyond the baseline."""
        left = self.baseline - cohort.stats["loss"].double()
        p = cohort.share / left.clamp(min=self.floor)
        beyond, n = int((left < self.floor).sum()), len(p)
        note = ""
        if beyond:
            note = (
                f"{beyond} of {n} clients have a loss above {self.baseline - self.floor:g}, "
                "beyond which PropFair treats all the same; raise method.baseline"
            )
        return Weighed(p / p.sum(), state, note)


@dataclass(frozen=True)
class Bargain:
    """-log(1 - l/M), or l/M where M - l < floor.

    The second branch is the authors' code; it keeps steps finite where the loss is near M or above.
    """

    baseline: float
    floor: float = 0.2

    def __call__(self, loss: Tensor) -> Tensor:
        """The value to minimise."""
        share = loss / self.baseline
        inside = self.baseline - loss >= self.floor
        # Both branches are differentiated: the logarithm must be finite in the one not taken.
        log = -torch.log1p(-torch.where(inside, share, 0.0))
        return torch.where(inside, log, share)


class PropFairLoss(Method):
    """PropFair on the clients: each minimises the logarithm of its distance from a baseline."""

    slot: ClassVar[Slot] = "objective"
    refuses = {
        Trait.SENDS_NO_MODEL: "the loss of a classifier is only part of what its clients minimise"
    }
    paper: ClassVar[str] = _PAPER

    baseline: float = setting(3.0, "the loss that counts as worthless (M)", gt=0, source=_MIDDLE)
    floor: float = setting(
        0.2, "smallest M - l: a loss beyond it is only divided by M", gt=0, source=_RELEASED
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the objective."""
        curve = Bargain(self.baseline, self.floor)
        return replace(draft, task=draft.task.curved(curve))

    def objection(self, draft: Draft) -> str:
        """Other losses have no baseline that is known in advance."""
        if draft.task.classifies:
            return ""
        return (
            "method 'propfair_loss' is made for a classification loss, and this is "
            f"{draft.task.called}; use 'propfair'."
        )
