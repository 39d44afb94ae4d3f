"""FedBN (Li et al. 2021): BatchNorm's layers stay on the client, everything else is shared.

w^l <- sum_k p_k w_k^l for every layer l but BatchNorm's; scale, shift and running statistics of
those are each client's own. For clients whose inputs differ and not only their labels.
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import WHOLE_ONES, Method


class FedBn(Method):
    """BatchNorm's layers stay on the client: scale, shift and running statistics."""

    refuses = WHOLE_ONES
    paper: ClassVar[str] = "Li et al. 2021, arXiv 2102.07623"

    def change(self, draft: Draft) -> Draft:
        """Make them private, beside what is."""
        names = draft.private.names | frozenset(draft.task.network.norms)
        return replace(draft, private=replace(draft.private, names=names))

    def objection(self, draft: Draft) -> str:
        """There must be layers to keep, and others to share."""
        network = draft.task.network
        if not network.norms:
            return (
                "method 'fedbn' keeps BatchNorm's layers on the client, and the model has none; "
                "choose a model that has them, such as resnet9, or drop the method."
            )
        others = replace(draft.private, names=frozenset())
        if all(map(others, network.norms)):
            return (
                "method 'fedbn' has nothing to do: another method already keeps all of "
                "BatchNorm's layers on the client; drop it."
            )
        return ""
