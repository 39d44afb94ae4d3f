"""What the methods that select clients share."""

from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import Method, Slot


class SelectionMethod(Method):
    """A method that only chooses clients."""

    slot: ClassVar[Slot] = "schedule"

    def objection(self, draft: Draft) -> str:
        """There must be clients to leave out."""
        if draft.participation.count(draft.n_clients) == draft.n_clients:
            return (
                "a method that selects clients has nothing to choose if all take part; set "
                "participation.fraction below 1."
            )
        return unforeseen(draft)


def unforeseen(draft: Draft) -> str:
    """The objection of methods whose cohorts are not known before the run."""
    if draft.guarantee is None:
        return ""
    return (
        "epsilon assumes cohorts that are drawn beforehand, and here they depend on sizes, "
        "losses or speeds; drop differential privacy or the method that selects clients."
    )
