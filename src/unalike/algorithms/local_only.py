"""Local-only training: nothing is shared, nothing is sent; the lower bound of collaboration."""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.private import EVERYTHING


class LocalOnly(Method):
    """Every client trains alone."""

    slot: ClassVar[Slot] = "private"
    accepts: ClassVar[frozenset[str]] = frozenset({"data"})
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})

    def change(self, draft: Draft) -> Draft:
        """Make every leaf private."""
        return replace(draft, private=EVERYTHING)
