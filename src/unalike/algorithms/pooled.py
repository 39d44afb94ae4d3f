"""Pooled training: all data in one place, the upper bound federation is measured against."""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import BETWEEN_CLIENTS, Method, Slot
from unalike.parts.participation.schedule import Participation
from unalike.traits import Trait


class Pooled(Method):
    """One client holds all training data; tests are still per client."""

    slot: ClassVar[Slot] = "algorithm"
    refuses = dict.fromkeys(
        (*BETWEEN_CLIENTS, Trait.KEEPS_LEAVES),
        "all data are in one place, so there is nothing between clients to change",
    )

    def change(self, draft: Draft) -> Draft:
        """FedAvg with a single client."""
        return replace(draft, pooled=True, participation=Participation(), n_clients=1)
