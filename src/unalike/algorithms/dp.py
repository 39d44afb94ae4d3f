"""Differentially private federated averaging, central and local (McMahan et al. 2018; Geyer 2017).

Clients clip their updates to length C. Central: the server adds noise once to the plain mean, and
who sees the models learns little of any client. Local: every client adds noise before it sends, and
even the server learns little. The mechanism is in ``parts/privacy/gaussian.py``, the meaning and
count of epsilon in ``parts/privacy/accountant.py``. z = 0 with a large C is FedAvg.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import Uniform
from unalike.parts.privacy.accountant import Adjacency, Guarantee
from unalike.parts.privacy.gaussian import Clipped, NoisyMean
from unalike.recipe import Recipe

_MEASURED = {"gram", "sqnorm"}  # by the server, from updates that are covered


class CentralDp(Method):
    """Updates are clipped and the server adds noise to their mean: the models hide each client."""

    slot: ClassVar[Slot] = "privacy"
    refuses: ClassVar[Mapping[str, str]] = {
        "weights": "its noise is measured for a plain mean in which everybody counts the same",
        "defence": "its noise is measured for a plain mean and for no other rule",
        "schedule": "its epsilon is counted for cohorts that are uniform samples",
    }
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # one server that is trusted
    paper: ClassVar[str] = "McMahan et al. 2018, arXiv 1710.06963"

    clip: float = Field(default=1.0, gt=0, description="longest update C")
    noise_multiplier: float = Field(
        default=1.0, ge=0, description="noise on the sum of updates, in units of C (z)"
    )
    delta: float = Field(default=1e-5, gt=0, lt=1, description="chance that the promise fails")
    adjacency: Adjacency = Field(
        default="replace", description="epsilon compares with other data, or with no update at all"
    )

    def change(self, draft: Draft) -> Draft:
        """Clip on the client, clip again and add noise on the server; everybody counts the same."""
        return replace(
            draft,
            mixing=Uniform(),
            channel=(Clipped(self.clip),),
            filters=(NoisyMean(self.clip, self.noise_multiplier),),
            guarantee=Guarantee(self.noise_multiplier, self.delta, self.adjacency),
            checks=(*draft.checks, _covers),
        )


class LocalDp(Method):
    """Updates are clipped and every client adds noise before sending: the server is not trusted."""

    slot: ClassVar[Slot] = "privacy"
    paper: ClassVar[str] = "Truex et al. 2020, arXiv 2006.03637"

    clip: float = Field(default=1.0, gt=0, description="longest update C")
    noise_multiplier: float = Field(
        default=1.0, ge=0, description="noise on every update, in units of C (z)"
    )
    delta: float = Field(default=1e-5, gt=0, lt=1, description="chance that the promise fails")

    def change(self, draft: Draft) -> Draft:
        """Clip and add noise on the client."""
        return replace(
            draft,
            channel=(Clipped(self.clip, self.noise_multiplier),),
            guarantee=Guarantee(self.noise_multiplier, self.delta, local=True),
            checks=(*draft.checks, _covers),
        )


def _covers(draft: Draft, recipe: Recipe) -> None:
    """Refuse what the count of epsilon would not cover."""
    promise = recipe.guarantee
    assert promise is not None
    name = "local_dp" if promise.local else "dp"
    if promise.delta >= 1 / draft.n_clients:
        raise ConfigError(
            f"delta = {promise.delta:g} of method '{name}' would allow exposing one of "
            f"{draft.n_clients} clients outright; choose it well below {1 / draft.n_clients:.2g}."
        )
    told = sorted(recipe.needs - _MEASURED) + [q.name for q in recipe.mixing.survey]
    if told:
        raise ConfigError(
            f"method '{name}' covers the updates only, but the methods beside it also make clients "
            f"report their {', '.join(told)}; drop those methods."
        )
    if any(not draft.private(leaf) for leaf in draft.task.network.buffers):
        raise ConfigError(
            f"method '{name}' would add noise to BatchNorm's variances, which must stay positive; "
            "set run.buffers to 'local' or 'drop', or choose a model without BatchNorm."
        )
