"""What the defences have in common: one rule of the server against lying clients."""

from collections.abc import Mapping
from typing import ClassVar

from unalike.algorithms.method import Draft, Method, Slot


class Defence(Method):
    """A rule on the updates of one round, all of which it must see at once.

    Without a server every client hears models, not updates, so there is nothing to compare.
    """

    slot: ClassVar[Slot] = "defence"
    refuses: ClassVar[Mapping[str, str]] = {
        "weights": "everybody counts the same here, so its weights would be ignored"
    }
    topologies: ClassVar[frozenset[str]] = frozenset({"star", "rotating", "clusters"})


def answers(draft: Draft) -> int:
    """The most answers that the server with the fewest clients can get in a round."""
    planned = draft.participation.count(draft.n_clients) // max(draft.phases, 1)
    return min(planned, int(draft.topology.home(draft.n_clients).bincount().min()))
