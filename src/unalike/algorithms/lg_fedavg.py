"""LG-FedAvg (Liang et al. 2020): local representations, a global head.

theta_f stays on the client and persists; theta_g is downloaded, trained jointly with it, averaged:
(theta_f, theta_g) <- (theta_f, theta_g) - eta grad L(theta_f, theta_g)     (one joint step, or
theta_f first and theta_g from the new theta_f; that is in ``parts/turns.py``)
theta_g <- sum_{k in S} n_k theta_g^k / sum_{k in S} n_k
The authors begin with FedAvg on all of it; that is in ``warm_start.py``.
"""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from unalike.algorithms.fedavg import Step
from unalike.algorithms.method import Draft, Method, Slot
from unalike.algorithms.warm_start import WarmStart
from unalike.errors import ConfigError
from unalike.parts.mixing.examples import ByExamples, Uniform
from unalike.parts.private import Private
from unalike.parts.topology import Star
from unalike.recipe import Recipe


class LgFedAvg(Method):
    """The body of the network stays on the client, only the head is shared."""

    slot: ClassVar[Slot] = "private"
    accepts: ClassVar[frozenset[str]] = frozenset(
        {"objective", "server", "weights", "work", "data", "defence", "privacy"}
    )
    paper: ClassVar[str] = "Liang et al. 2020, arXiv 2001.01523"

    shared: Literal["head", "body"] | list[str] = Field(
        default="head", description="what travels: the head, the body, or these name prefixes"
    )
    weights: Literal["size", "uniform"] = Field(
        default="size", description="averaging by examples (text) or plain mean (authors' code)"
    )
    step: Step = Field(
        default="joint",
        description="private and shared part step together on a batch (authors' code), or the "
        "private one first (text)",
    )
    warm_start: int = Field(
        default=0, ge=0, description="of the rounds, how many are FedAvg on the whole model first"
    )

    def change(self, draft: Draft) -> Draft:
        """Keep everything but the shared prefixes private."""
        network = draft.task.network
        leaves = (*network.weights, *network.buffers)
        if isinstance(self.shared, list):
            unknown = [p for p in self.shared if not any(n.startswith(p) for n in leaves)]
            if unknown:
                raise ConfigError(
                    f"method.shared names '{unknown[0]}', but no layer of the model starts with "
                    f"it; layers are {', '.join(leaves[:6])} ..."
                )
            private = Private(tuple(self.shared), others=True)
        elif not network.head:
            raise ConfigError(
                "method 'lg_fedavg' needs to know the model's head: give the module an attribute "
                "head = ('layer.',) or list the shared prefixes in method.shared."
            )
        elif all(n.startswith(network.head) for n in leaves):
            raise ConfigError(
                "method 'lg_fedavg' cuts a model between its body and its head, and this one is "
                "all head; choose a model with hidden layers, such as mlp."
            )
        else:
            private = Private(network.head, others=self.shared == "head")
        draft = replace(draft, private=private, step=self.step)
        if self.weights == "uniform":
            draft = self._plain_mean(draft)
        return self._warmed(draft) if self.warm_start else draft

    def _plain_mean(self, draft: Draft) -> Draft:
        """The draft with equal weights, which no method before or after may have set."""

        def check(draft: Draft, recipe: Recipe) -> None:
            if not isinstance(draft.mixing, Uniform):
                raise ConfigError(
                    "method.weights = 'uniform' of 'lg_fedavg' is the plain mean, but another "
                    "method sets the weights; leave weights out or drop that method."
                )

        untouched = isinstance(draft.mixing, ByExamples)
        mixing = Uniform() if untouched else draft.mixing
        return replace(draft, mixing=mixing, checks=(*draft.checks, check))

    def _warmed(self, draft: Draft) -> Draft:
        """The draft with a first stage, in which everything travels, the buffers too."""
        if self.warm_start >= draft.rounds:
            raise ConfigError(
                f"method.warm_start of 'lg_fedavg' is {self.warm_start} of {draft.rounds} rounds, "
                "so that no round would be LG-FedAvg's; lower it or raise rounds."
            )
        if not isinstance(draft.topology, Star):
            raise ConfigError(
                "method.warm_start of 'lg_fedavg' needs a server that all clients share; "
                "set topology.name = 'star' or warm_start = 0."
            )

        def check(draft: Draft, recipe: Recipe) -> None:
            if recipe.guarantee is not None and draft.task.network.buffers:
                raise ConfigError(
                    "method.warm_start of 'lg_fedavg' sends running statistics, whose noise would "
                    "make a variance negative; set run.buffers = 'drop' or warm_start = 0."
                )

        def make(draft: Draft) -> WarmStart:
            return WarmStart(draft.fedavg(), self.warm_start)

        return replace(draft, make=make, checks=(*draft.checks, check))
