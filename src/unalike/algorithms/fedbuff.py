"""FedBuff (Nguyen et al. 2022, Alg. 1): asynchronous rounds with a buffer of K answers.

clients train from the model they started with, version s;   tau = versions since then
with K answers:  x <- x + server_opt(1/K sum_k s(tau_k) u_k),   s(tau) = (1 + tau)^(-a)

Who arrives when follows from the simulated clock (``parts/asynchronous.py``); a round is a step of
the server. An update is the difference from the model that its client received, however old. If all
clients are equally fast and all answers fill the buffer, nobody is stale, and it is FedAvg.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import FOR_UPDATES, Method, Slot
from unalike.algorithms.selecting import unforeseen
from unalike.cohort import Cohort
from unalike.parts.asynchronous import Buffered
from unalike.parts.clock import CUSTOMARY
from unalike.parts.mixing.base import Mixing, Rescaled, Weighed
from unalike.parts.mixing.examples import Uniform
from unalike.parts.schedule import Participation, Schedule
from unalike.settings import setting
from unalike.traits import Trait


@dataclass(frozen=True)
class Stale(Rescaled):
    """p_k (1 + tau_k)^(-power), with p_k of another rule."""

    power: float
    rule: Mixing

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Weights that sum to less than one where answers are stale."""
        found, tau = self.rule.weights(state, cohort), cohort.stats["staleness"].double()
        p = found.p * (1 + tau) ** -self.power
        return found._replace(p=p, logged={**found.logged, "staleness": tau})


class FedBuff(Method):
    """The server steps after every K answers; slow clients answer with old models."""

    slot: ClassVar[Slot] = "schedule"
    traits = frozenset({Trait.STEP_IN_WEIGHTS})
    refuses = {
        **FOR_UPDATES,
        Trait.MOVING_SERVER: "the server keeps the versions that clients are still working on",
        Trait.ALTERS_DOWNLOADS: "its clients answer to downloads of different rounds",
        Trait.STEP_IN_WEIGHTS: "weights that include a step length are not those of an average",
        Trait.WEIGHTS_FOLLOW_LOSSES: "losses of different versions of the model cannot be compared",
    }
    paper: ClassVar[str] = "Nguyen et al. 2022, arXiv 2106.06639"

    buffer: int = setting(10, "answers per step of the server (K)", ge=1, source="text: K = 10")
    concurrency: int = setting(
        20, "clients working at the same time", ge=1, source="our choice: twice the buffer"
    )
    power: float = setting(
        0.5, "a in the weight (1 + tau)^(-a); 0: age does not matter", ge=0, source="text: 1/2"
    )
    max_staleness: int = setting(
        20,
        "answers older than this many steps are discarded",
        ge=0,
        source="our choice: twice the buffer; the server keeps as many downloads",
    )

    def change(self, draft: Draft) -> Draft:
        """Take over the schedule, weigh by age; there is a clock, whether one was set or not."""
        clock = draft.clock or CUSTOMARY
        return replace(draft, mean=Uniform(), schedule=self._schedule, work=self._work, clock=clock)

    def objection(self, draft: Draft) -> str:
        """It needs as many clients, and nobody is late."""
        for name, wanted in (("buffer", self.buffer), ("concurrency", self.concurrency)):
            if wanted > draft.n_clients:
                return (
                    f"{name} = {wanted} of 'fedbuff' is more than the {draft.n_clients} clients; "
                    "lower it."
                )
        if draft.clock is not None and draft.clock.deadline is not None:
            return "method 'fedbuff' takes the first answers to arrive; leave clock.deadline out."
        if draft.participation != Participation():
            return (
                "concurrency of 'fedbuff' already says how many take part; leave participation out."
            )
        return unforeseen(draft)

    def _schedule(self, draft: Draft) -> Schedule:
        return Buffered(
            epochs=draft.epochs,
            buffer=self.buffer,
            concurrency=self.concurrency,
            stalest=self.max_staleness,
        )

    def _work(self, rule: Mixing, draft: Draft) -> Mixing:
        return Stale(self.power, rule)
