"""FedMGDA+ (Hu et al. 2022): a step along which no participating client's loss rises.

d_i = (x - x_i) / ||x - x_i||;   x <- x - eta sum_i l_i d_i,   l = argmin ||sum_i l_i d_i||
over the simplex with |l_i - 1/n| <= epsilon. The rule is in ``parts/mixing/mgda.py``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.mixing.mgda import CommonDescent


class FedMgda(Method):
    """The shortest mean of the clients' unit directions: a step that harms nobody."""

    slot: ClassVar[Slot] = "weights"
    refuses: ClassVar[Mapping[str, str]] = {
        "scaffold": "its control variates turn every update towards the plain mean of all "
        "gradients, so that no client's own direction is left to compare",
        "fedevg": "it sends no updates of a model",
        "server": "another step than a multiple of the common direction may raise a client's loss",
        "defence": "its weights belong to the updates as they were sent, which a defence changes",
    }
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # weights for updates, not models
    paper: ClassVar[str] = "Hu et al. 2022, arXiv 2006.11489"

    epsilon: float = Field(
        default=0.1, ge=0, le=1, description="how far weights may be from equal; 1: anywhere"
    )
    lr: float = Field(default=1.0, gt=0, description="step length along the direction (eta)")

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, mixing=CommonDescent(self.epsilon, self.lr))
