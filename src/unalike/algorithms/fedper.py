"""FedPer (Arivazhagan et al. 2019): shared base layers, personal layers at the end.

(w_B, w_P_k) <- (w_B, w_P_k) - eta grad F_k(w_B, w_P_k)          (one joint step on a batch)
w_B <- sum_k n_k w_B^k / sum_k n_k;   w_P_k stays on the client

The same cut as LG-FedAvg's, from the other side: here the representation is shared.
"""

from dataclasses import replace
from typing import ClassVar, Literal

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import WHOLE_ONES, Method, Slot
from unalike.parts.representation.cut import unknown
from unalike.settings import setting


class Cut(Method):
    """A method that keeps some layers on the client."""

    slot: ClassVar[Slot] = "private"
    refuses = WHOLE_ONES
    name: ClassVar[str]

    personal: Literal["head"] | list[str] = setting(
        "head",
        "what stays on the client: the head, or these name prefixes",
        source="text: the last layers",
    )

    def change(self, draft: Draft) -> Draft:
        """Make those layers private, beside what is."""
        prefixes = draft.task.network.head if self.personal == "head" else tuple(self.personal)
        return replace(draft, private=replace(draft.private, prefixes=prefixes, others=False))

    def objection(self, draft: Draft) -> str:
        """There must be something to keep and something to share."""
        network = draft.task.network
        if self.personal == "head" and not network.head:
            return (
                f"method '{self.name}' needs to know the model's head: give the module an "
                "attribute head = ('layer.',) or list the private prefixes in method.personal."
            )
        if not self.personal:
            return (
                f"method.personal of '{self.name}' is an empty list, so nothing would stay on the "
                "client; name layers, or use 'fedavg'."
            )
        prefixes = network.head if self.personal == "head" else tuple(self.personal)
        if why := unknown(network, prefixes, "method.personal"):
            return why
        if all(map(draft.private, network.weights)):
            return (
                f"method '{self.name}' leaves nothing to share: every layer of the model stays "
                "on the client; name fewer layers, or choose a model with hidden layers."
            )
        return ""


class FedPer(Cut):
    """The head of the network stays on the client, the body is shared."""

    name: ClassVar[str] = "fedper"
    paper: ClassVar[str] = "Arivazhagan et al. 2019, arXiv 1912.00818"
