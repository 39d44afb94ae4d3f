"""Local-only training: nothing is shared, nothing is sent; the lower bound of collaboration."""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import BETWEEN_CLIENTS, Method, Slot
from unalike.parts.representation.private import EVERYTHING


class LocalOnly(Method):
    """Every client trains alone."""

    slot: ClassVar[Slot] = "private"
    refuses = dict.fromkeys(
        BETWEEN_CLIENTS, "every client trains alone, so there is nothing between clients to change"
    )

    def change(self, draft: Draft) -> Draft:
        """Make every leaf private."""
        return replace(draft, private=EVERYTHING)
