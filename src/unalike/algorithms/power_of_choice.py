"""Power of choice (Cho et al. 2020, the variant without extra messages, rpow-d).

candidates A: d clients without replacement, each next one with chance n_k
cohort: the m of A with the highest loss, as each last reported it;   x <- x + mean of the updates
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.selecting import SelectionMethod
from unalike.parts.mixing.examples import Uniform
from unalike.parts.participation.schedule import Schedule
from unalike.parts.participation.selection import PowerOfChoice, Selected
from unalike.settings import setting
from unalike.traits import Trait


class PowerOfChoiceMethod(SelectionMethod):
    """Of several candidates those with the highest loss are chosen: faster, but biased."""

    refuses = {Trait.SENDS_NO_MODEL: "there is no model whose loss clients could report"}
    paper: ClassVar[str] = "Cho et al. 2020, arXiv 2010.01243"

    candidates: float = setting(
        2.0,
        "d as a multiple of the clients that take part; 1 is sampling by size",
        ge=1,
        source="text: d = 2m is the first above m in the experiments",
    )

    def objection(self, draft: Draft) -> str:
        """There must be more candidates than places."""
        m = draft.participation.count(draft.n_clients)
        if self.candidates > 1 and m == self._candidates(m, draft) < draft.n_clients:
            return (
                f"candidates = {self.candidates:g} of 'power_of_choice' makes {m} candidates for "
                f"{m} places, so losses would decide nothing; raise it, or set it to 1 for "
                "sampling by size."
            )
        return super().objection(draft)

    def change(self, draft: Draft) -> Draft:
        """Choose by losses; all clients count the same."""
        return replace(draft, mean=Uniform(), schedule=self._schedule)

    def _schedule(self, draft: Draft) -> Schedule:
        m = draft.participation.count(draft.n_clients)
        rule = PowerOfChoice(self._candidates(m, draft))
        return Selected(draft.participation, draft.epochs, selection=rule)

    def _candidates(self, m: int, draft: Draft) -> int:
        return min(draft.n_clients, round(self.candidates * m))
