"""Tiers of equally fast clients (TiFL, Chai et al. 2020, static selection with equal chances).

clients sorted by the seconds that a round takes them, cut into tiers of equal size
round: one tier, drawn with equal chances; of it a uniform sample, or the whole tier if it is small
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.selecting import SelectionMethod, unforeseen
from unalike.parts.participation.clock import CUSTOMARY
from unalike.parts.participation.schedule import Schedule
from unalike.parts.participation.selection import Selected, Tiers
from unalike.settings import setting


class Tifl(SelectionMethod):
    """A round uses clients of one speed tier, so that fast ones do not wait for slow ones."""

    paper: ClassVar[str] = "Chai et al. 2020, arXiv 2001.09249"

    tiers: int = setting(5, "number of tiers", ge=1, source="text: five tiers in the experiments")

    def change(self, draft: Draft) -> Draft:
        """Choose within a tier; there is a clock, whether one was set or not."""
        return replace(draft, schedule=self._schedule, clock=draft.clock or CUSTOMARY)

    def objection(self, draft: Draft) -> str:
        """A tier needs a client."""
        if self.tiers > draft.n_clients:
            return f"tiers = {self.tiers} is more than the {draft.n_clients} clients; lower it."
        return unforeseen(draft)

    def _schedule(self, draft: Draft) -> Schedule:
        return Selected(draft.participation, draft.epochs, selection=Tiers(self.tiers))
