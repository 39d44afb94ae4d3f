"""Differentially private federated averaging (McMahan et al. 2018, Alg. 1; Geyer et al. 2017).

u = (sum_k clip(u_k, C) + z C xi) / n,          xi ~ N(0, I), drawn by the server

Clients clip their updates to length C, and the server adds noise once to the plain mean: whoever
sees the models learns little about any client. The clipping is in ``parts/privacy/gaussian.py``,
the meaning and count of epsilon in ``parts/privacy/accountant.py``. z = 0 with a large C is FedAvg.
"""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.func import vmap

from unalike import rng, tree
from unalike.algorithms.draft import Draft
from unalike.algorithms.method import TO_BE_SET, Method, Slot
from unalike.cohort import Cohort
from unalike.parts.clip import clip
from unalike.parts.mixing.examples import Uniform
from unalike.parts.privacy.gaussian import Clipped, noisy
from unalike.parts.privacy.guarantee import Adjacency, Guarantee
from unalike.settings import setting
from unalike.traits import Trait
from unalike.tree import Tree

CUSTOMARY = "our choice: customary; keep it far below one over the clients"
_MEASURED = {"gram", "sqnorm"}  # by the server, from updates that are covered


class CentralDp(Method):
    """Updates are clipped and the server adds noise to their mean: the models hide each client."""

    slot: ClassVar[Slot] = "privacy"
    refuses = {
        Trait.SETS_WEIGHTS: "its noise is calibrated for a plain mean in which all clients count "
        "the same",
        Trait.FILTERS_UPDATES: "its noise is calibrated for a plain mean and for no other rule",
        Trait.CHOOSES_COHORTS: "its epsilon assumes cohorts that are uniform samples",
        Trait.MANY_SERVERS: "one trusted server must see all updates",
        Trait.MOVING_SERVER: "every client in turn would have to be trusted with the updates of "
        "all others",
    }
    paper: ClassVar[str] = "McMahan et al. 2018, arXiv 1710.06963"

    clip: float = setting(1.0, "longest update C", gt=0, source=TO_BE_SET)
    noise_multiplier: float = setting(
        1.0,
        "noise on the sum of updates, in units of C (z)",
        ge=0,
        source="our choice, to be adjusted: noise as large as one client's update",
    )
    delta: float = setting(1e-5, "chance that the promise fails", gt=0, lt=1, source=CUSTOMARY)
    adjacency: Adjacency = setting(
        "replace",
        "epsilon compares with other data, or with no update at all",
        source="our choice: what cohorts of a fixed size are analysed for",
    )

    def change(self, draft: Draft) -> Draft:
        """Clip on the client, clip again and add noise on the server; all count the same."""
        return replace(
            draft,
            mean=Uniform(),
            channel=(*draft.channel, Clipped(self.clip)),
            filters=(*draft.filters, self),
            guarantee=Guarantee(self.noise_multiplier, self.delta, self.adjacency),
        )

    def objection(self, draft: Draft) -> str:
        """What the count of epsilon would not cover."""
        return uncovered(draft, "dp")

    def __call__(self, ups: Tree, p: Tensor, cohort: Cohort) -> tuple[Tree, Tensor]:
        """The noisy mean as a stack of one row, with weight one.

        The server clips again: the guarantee of the honest must not rest on everybody's honesty.
        """
        key = rng.fold_in(cohort.key, rng.Stream.RELEASE)
        sent = noisy(self.mean(ups), self.deviation(len(p)), key)
        return tree.map(lambda x: x[None], sent), torch.ones_like(p[:1])

    def mean(self, ups: Tree) -> Tree:
        """Of updates that are clipped again."""
        each = vmap(clip, in_dims=(0, None))(ups, self.clip)
        return tree.map(lambda x: x.mean(0), each)

    def deviation(self, n: int) -> float:
        """Of the noise on the mean of so many updates."""
        return self.noise_multiplier * self.clip / n


def uncovered(draft: Draft, name: str) -> str:
    """What a promise of privacy would not cover, as a sentence; empty if it covers everything."""
    promise, n = draft.guarantee, draft.n_clients
    if promise is not None and promise.delta >= 1 / n:
        return (
            f"delta = {promise.delta:g} of method '{name}' would allow exposing one of {n} clients "
            f"outright; choose it well below {1 / n:.2g}."
        )
    told = sorted(draft.reports - _MEASURED) + [q.name for q in draft.mixing.survey]
    if told:
        return (
            f"method '{name}' covers only the updates, but the other methods also make clients "
            f"report their {', '.join(told)}; drop those methods."
        )
    if any(not draft.private(leaf) for leaf in draft.task.network.buffers):
        return (
            f"method '{name}' would add noise to BatchNorm's variances, which must stay positive; "
            "set run.buffers to 'local' or 'drop', or choose a model without BatchNorm."
        )
    return ""
