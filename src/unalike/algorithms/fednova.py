"""FedNova (Wang et al. 2020): normalised averaging when clients take unequal numbers of steps.

x <- x - eta_s tau_eff sum_k p_k (x - x_k) / a_k,    tau_eff = sum_k p_k a_k / sum_k p_k
a_k is how far tau_k steps of rate 1 along a gradient that is always 1 go (``parts/reach.py``), with
momentum rho and, at the local rate eta, a proximal term mu. In closed form:
a_k = tau_k                                                    (plain SGD)
a_k = (tau_k - rho (1 - rho^tau_k) / (1 - rho)) / (1 - rho)    (momentum)
a_k = (1 - (1 - eta mu)^tau_k) / (eta mu)                      (proximal term)

Where an upload holds several rounds (phase-shift), a client reports its own a_k.

p_k is n_k / n, or the weight of whatever rule is combined with it (FedDisco's, AAggFF's). Where all
a_k are equal, eta_s p_k is what is left: with equal sizes, epochs and batches it is FedAvg.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import FOR_UPDATES, Method, Slot, two_steps
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Mixing, Rescaled, Weighed
from unalike.parts.mixing.examples import ByExamples
from unalike.parts.optim import Sgd
from unalike.parts.reach import UNMEASURED, Measured, Unmeasured, reach
from unalike.recipe import Decay
from unalike.settings import setting
from unalike.traits import Trait

_LEAST = torch.finfo(torch.float64).tiny  # if a rule gives no client a weight


class FedNova(Method):
    """Updates are divided by the local work behind them, so that busy clients do not dominate."""

    slot: ClassVar[Slot] = "work"
    traits = frozenset({Trait.STEP_IN_WEIGHTS})
    refuses = {
        **FOR_UPDATES,
        Trait.ALTERS_UPLOADS: "its weights follow local steps, and so would the noise on updates",
        Trait.OWN_CLIENT: "it knows how far FedAvg's local steps go, but not how far others do",
        Trait.STEP_IN_WEIGHTS: "weights that include a step length are not those of an average",
    }
    paper: ClassVar[str] = "Wang et al. 2020, arXiv 2007.07481"

    effective: Literal["normaliser", "steps"] = setting(
        "normaliser",
        "tau_eff from a_k (paper) or from step counts",
        source="text; with a proximal term the authors' code takes step counts",
    )
    server_lr: float = setting(
        1.0,
        "step of the server; 1: the whole update",
        gt=0,
        source="text: the whole step, as in FedAvg",
    )

    def change(self, draft: Draft) -> Draft:
        """Divide whatever weights there are in the end."""

        def work(rule: Mixing, draft: Draft) -> Mixing:
            assert isinstance(draft.opt, Sgd), "see objection"
            pull, several = draft.term.pull or 0.0, draft.phases > 1
            return Nova(self, draft.opt, pull, draft.decay, rule, several)

        def measured(draft: Draft) -> Unmeasured:
            assert isinstance(draft.opt, Sgd), "see objection"
            return Measured(draft.opt, draft.keep_optimizer) if draft.phases > 1 else UNMEASURED

        return replace(draft, work=work, reach=measured)

    def objection(self, draft: Draft) -> str:
        """What it knows no normaliser for."""
        if not isinstance(draft.opt, Sgd):
            return "method 'fednova' knows the normaliser of SGD only: set local.optimizer = 'sgd'."
        if draft.term.pull is None:
            return (
                "method 'fednova' must know the strength of a proximal term in every round, and "
                "this one changes it; set adaptive = false there."
            )
        if draft.phases > 1 and (draft.term.pull or self.effective == "steps"):
            return (
                "method 'fednova' can measure several rounds in one upload only by the normaliser "
                "and without a proximal term; drop the other method, or leave effective out."
            )
        return two_steps(draft, self.server_lr, "fednova")


@dataclass(frozen=True)
class Nova(Rescaled):
    """eta_s p_k tau_eff / a_k, with p_k of another rule."""

    settings: FedNova
    opt: Sgd = Sgd(1.0)
    pull: float = 0.0  # mu
    decay: Decay = Decay()
    rule: Mixing = ByExamples()
    reported: bool = False  # whether clients tell their a_k

    @property
    def needs(self) -> frozenset[str]:
        """The rule's, and a_k if it does not follow from the steps of this round."""
        return self.rule.needs | ({"reach"} if self.reported else set())

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Weights that need not sum to one."""
        weighed = self.rule.weights(state, cohort)
        p, tau = weighed.p, cohort.stats["steps"].double()
        a = reach(tau, self.opt, self.opt.lr * self.decay(cohort.round) * self.pull)
        a = cohort.stats["reach"].double() if self.reported else a
        mean = a if self.settings.effective == "normaliser" else tau
        effective = p @ mean / p.sum().clamp(min=_LEAST)
        return weighed._replace(p=self.settings.server_lr * p * effective / a)
