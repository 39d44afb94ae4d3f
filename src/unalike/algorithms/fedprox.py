"""FedProx (Li et al. 2020, Alg. 2): a proximal term keeps local models near the global one.

minimise F_k(w) + mu/2 ||w - x||^2                                     (eq. 2)
mu = 0 is FedAvg. With ``adaptive`` mu follows the paper's heuristic (section 5.3.2): it grows by
``step`` when the global loss rises, and shrinks by it after ``patience`` falls in a row; it never
becomes negative. A loss that stays the same is neither: it ends a row of falls.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, Slot
from unalike.cohort import Cohort
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Params


class FedProx(Method):
    """A proximal term keeps local models near the global one."""

    slot: ClassVar[Slot] = "objective"
    refuses = {
        Trait.PULLS_ITSELF: "the other one already has such a pull, with a strength of its own",
        Trait.SENDS_NO_MODEL: "clients receive no model to stay near",
        Trait.OWN_OBJECTIVE: "the other one's clients do not descend on the loss that the pull is "
        "added to",
    }
    paper: ClassVar[str] = "Li et al. 2020, arXiv 1812.06127"

    mu: float = setting(
        0.01,
        "strength of the pull, or its initial value",
        ge=0,
        source="the released commands of SuPerFed and FLTK's code, which have it as a baseline; "
        "the text tunes it per dataset",
    )
    adaptive: bool = setting(
        False,
        "raise mu when the loss rises, otherwise lower it",
        source="our choice: a fixed mu is the same objective in every round",
    )
    step: float = setting(
        0.1, "how much mu changes, if adaptive", gt=0, source="text, section 5.3.2"
    )
    patience: int = setting(
        5, "falls in a row before mu shrinks", ge=1, source="text, section 5.3.2"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the objective."""
        return replace(draft, term=AdaptiveProximal(self) if self.adaptive else Proximal(self.mu))


class Fixed(NamedTuple):
    """The state of a term that never changes."""

    coefficient: Tensor


@dataclass(frozen=True)
class Proximal:
    """mu/2 ||w - x||^2."""

    mu: float
    needs: ClassVar[frozenset[str]] = frozenset()

    @property
    def pull(self) -> float:
        """The same in every round."""
        return self.mu

    def init(self) -> Fixed:
        """A constant mu."""
        return Fixed(torch.tensor(self.mu))

    def update(self, state: Fixed, cohort: Cohort) -> Fixed:
        """No change."""
        return state

    def __call__(self, coefficient: Tensor, w: Params, x: Params) -> Tensor:
        """The penalty."""
        return 0.5 * coefficient * tree.sqnorm(tree.sub(w, x))


class Adapting(NamedTuple):
    """mu, the last global loss, and how often in a row it fell."""

    coefficient: Tensor
    loss: Tensor
    falls: Tensor


@dataclass(frozen=True)
class AdaptiveProximal:
    """The proximal term with the heuristic for mu."""

    settings: FedProx
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})
    pull: ClassVar[None] = None

    def init(self) -> Adapting:
        """The first mu, before any loss is known."""
        return Adapting(torch.tensor(self.settings.mu), torch.tensor(torch.inf), torch.zeros(()))

    def update(self, state: Adapting, cohort: Cohort) -> Adapting:
        """The next mu from the size-weighted loss of the received model."""
        mu, loss, falls = state
        new = (cohort.share * cohort.stats["loss"]).sum().to(loss)
        rose = new > loss
        falls = torch.where(new < loss, falls + 1, 0.0) if torch.isfinite(loss) else falls
        if rose:
            mu = mu + self.settings.step
        elif falls >= self.settings.patience:
            mu, falls = (mu - self.settings.step).clamp(min=0), torch.zeros_like(falls)
        return Adapting(mu, new, falls)

    def __call__(self, coefficient: Tensor, w: Params, x: Params) -> Tensor:
        """The penalty."""
        return 0.5 * coefficient * tree.sqnorm(tree.sub(w, x))
