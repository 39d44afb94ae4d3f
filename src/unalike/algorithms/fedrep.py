"""FedRep (Collins et al. 2021, Alg. 1): first the personal head, then the shared representation.

h_k <- h_k - eta grad_h F_k(phi, h_k)           over the round's minibatches, phi as received
phi_k <- phi_k - eta grad_phi F_k(phi_k, h_k)   then, with the new h_k fixed
phi <- sum_k p_k phi_k;   h_k stays on the client

With both in one step it is FedPer; with everything in the head, training alone.
"""

from dataclasses import replace
from typing import ClassVar, Literal

from unalike.algorithms.ditto import too_long
from unalike.algorithms.draft import Draft
from unalike.algorithms.fedavg import Apart
from unalike.algorithms.fedper import Cut
from unalike.algorithms.method import AVERAGING
from unalike.parts.mixing.examples import Uniform
from unalike.settings import setting


class FedRep(Cut):
    """FedPer in turns: the private head first, then the shared body with the head fixed."""

    name: ClassVar[str] = "fedrep"
    paper: ClassVar[str] = "Collins et al. 2021, arXiv 2102.07078"

    body_epochs: int | None = setting(
        None,
        "how many of the round's epochs the body trains after the head; unset: all of them",
        ge=1,
        source="our choice: as many as the head, for any local.epochs; the text has one",
    )
    averaging: Literal["size", "uniform"] = AVERAGING

    def change(self, draft: Draft) -> Draft:
        """The cut, and head before body."""
        draft = replace(super().change(draft), apart=Apart(self.body_epochs))
        return replace(draft, mean=Uniform()) if self.averaging == "uniform" else draft

    def objection(self, draft: Draft) -> str:
        """The body cannot train longer than the round."""
        return super().objection(draft) or too_long(self.body_epochs, draft, "fedrep")
