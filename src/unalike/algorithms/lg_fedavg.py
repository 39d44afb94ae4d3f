"""LG-FedAvg (Liang et al. 2020): local representations, a global head.

theta_f stays on the client and persists; theta_g is downloaded, trained jointly with it, averaged:
(theta_f, theta_g) <- (theta_f, theta_g) - eta grad L(theta_f, theta_g)     (one joint step, or
theta_f first and theta_g from the new theta_f; see ``parts/descent.py``)
theta_g <- sum_{k in S} n_k theta_g^k / sum_{k in S} n_k
The authors begin with FedAvg on all of it: a stage before this one, whose model it continues with.
A local loss on the representation, with a network of its own, may be added on the client
(``parts/representation/local.py``): theta_f descends on both. The network stays with theta_f: it
travels only in a stage before this one, where everything does.
"""

from dataclasses import replace
from typing import ClassVar, Literal, cast, get_args

from unalike.algorithms.draft import Before, Draft
from unalike.algorithms.fedavg import Step
from unalike.algorithms.method import WHOLE_ONES, Method, Slot
from unalike.parts.mixing.examples import Uniform
from unalike.parts.representation.cut import unknown
from unalike.parts.representation.local import Local, refusal, represented
from unalike.parts.representation.private import SHARED, Private
from unalike.settings import setting
from unalike.tasks.base import NetworkTask
from unalike.traits import Trait


class LgFedAvg(Method):
    """The body of the network stays on the client, only the head is shared."""

    slot: ClassVar[Slot] = "private"
    refuses = WHOLE_ONES
    paper: ClassVar[str] = "Liang et al. 2020, arXiv 2001.01523"

    shared: Literal["head", "body"] | list[str] = setting(
        "head",
        "what travels: the head, the body, or these name prefixes",
        source="text; the authors' code shares the convolutions on CIFAR-10",
    )
    weights: Literal["size", "uniform"] = setting(
        "size",
        "averaging by examples (text) or plain mean (authors' code)",
        source="text; the authors' code takes the plain mean",
    )
    local: Local = setting(
        "plain",
        "what the representation also learns: nothing more, the labels with an auxiliary head, "
        "the features with a decoder, which way up an image is, or to hide protected attributes "
        "from an adversary",
        source="text: all but the last of its tables use the plain method",
    )
    local_weight: float = setting(
        1.0,
        "weight of that loss; for an adversary, how strongly the representation hides",
        ge=0,
        only={"local": get_args(Local)[1:]},
        source="our choice: the text gives none; the authors' code has 0.03 and 30 for adversaries",
    )
    step: Step = setting(
        "joint",
        "on each batch the private and shared parts step together (authors' code), the private "
        "one first (text), or an auxiliary network first, as in alternating adversarial training",
        source="authors' code, which is back-propagation; the text lists one update after another",
    )
    warm_start: int = setting(
        0,
        "how many of the first rounds are FedAvg on the whole model",
        ge=0,
        source="text; the authors' code starts from a FedAvg model",
    )

    def change(self, draft: Draft) -> Draft:
        """Keep everything but the shared prefixes private."""
        head = draft.task.network.head
        prefixes = tuple(self.shared) if isinstance(self.shared, list) else head
        private = Private(prefixes, self.shared != "body", draft.private.names)
        if self.local != "plain" and not self._unfit(draft):
            data = draft.shape, draft.classes, draft.protected
            task = cast(NetworkTask, draft.task)
            made = represented(task, self.local, private.prefixes, *data, self.local_weight)
            draft = replace(draft, task=made)
        mean = Uniform() if self.weights == "uniform" else draft.mean
        draft = replace(draft, private=private, step=self.step, mean=mean)
        if self.warm_start:
            draft = replace(draft, before=Before(_whole, self.warm_start), start="model")
        return draft

    def objection(self, draft: Draft) -> str:
        """The model must have both parts, and every setting must have something to act on."""
        network = draft.task.network
        if isinstance(self.shared, list):
            if why := unknown(network, self.shared, "method.shared"):
                return why
        elif not network.head:
            return (
                "method 'lg_fedavg' needs to know the model's head: give the module an attribute "
                "head = ('layer.',) or list the shared prefixes in method.shared."
            )
        elif all(n.startswith(network.head) for n in (*network.weights, *network.buffers)):
            return (
                "method 'lg_fedavg' splits a model into body and head, and this one is all head; "
                "choose a model with hidden layers, such as mlp."
            )
        if all(map(draft.private, network.weights)):
            return "method 'lg_fedavg' shares no weights; change method.shared or use 'local_only'."
        if self.local != "plain" and (why := self._unfit(draft)):
            return f"method.local = '{self.local}' of 'lg_fedavg' cannot be used: {why}."
        if self.step == "auxiliary" and self.local == "plain":
            return "'lg_fedavg' has no auxiliary network to step on; set method.local to a loss."
        if self.weights == "uniform" and draft.weights is not None:
            return (
                "method.weights = 'uniform' of 'lg_fedavg' is the plain mean, but another method "
                "sets the weights; leave weights out or drop that method."
            )
        return self._cold(draft) if self.warm_start else ""

    def _unfit(self, draft: Draft) -> str:
        """Why the local loss cannot be used."""
        cuts = {"head": draft.task.network.head, "body": ()}
        shared = tuple(self.shared) if isinstance(self.shared, list) else cuts[self.shared]
        return refusal(draft.task, self.local, shared, draft.shape, draft.protected)

    def _cold(self, draft: Draft) -> str:
        """Why a warm start is impossible."""
        if self.warm_start >= draft.rounds:
            return (
                f"method.warm_start of 'lg_fedavg' is {self.warm_start} of {draft.rounds} "
                "rounds, which leaves none for LG-FedAvg itself; lower it or raise rounds."
            )
        if Trait.MANY_SERVERS in draft.topology.traits:
            return (
                "method.warm_start of 'lg_fedavg' needs a server that all clients share; "
                "set topology.name = 'star' or warm_start = 0."
            )
        if draft.guarantee is not None and draft.task.network.buffers:
            return (
                "method.warm_start of 'lg_fedavg' sends running statistics, whose noise would "
                "make a variance negative; set run.buffers = 'drop' or warm_start = 0."
            )
        return ""


def _whole(draft: Draft) -> Draft:
    """The stage in which everything travels, the running statistics too."""
    return replace(draft, private=SHARED, step="joint")
