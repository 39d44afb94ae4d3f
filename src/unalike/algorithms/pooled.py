"""Pooled training: all data in one place, the upper bound federation is measured against."""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.schedule import Participation


class Pooled(Method):
    """One client holds all training data; tests stay per client."""

    slot: ClassVar[Slot] = "algorithm"
    accepts: ClassVar[frozenset[str]] = frozenset()
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})

    def change(self, draft: Draft) -> Draft:
        """FedAvg with a single client."""
        return replace(draft, pooled=True, participation=Participation(), n_clients=1)
