"""FedDisco (Ye et al. 2023): weights by size and by the distance from the test labels.

d_k = KL(q_k || u), divided by its sum over the cohort;   u_k = max(0, n_k / n - a d_k + b)
p_k = u_k / sum of u

The last two are in ``parts/mixing/disco.py``. The rule replaces n_k / n and nothing else, so it can
be combined with FedProx, FedNova, SCAFFOLD, server optimizers and personal layers. a = b = 0 is
FedAvg.
"""

from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor

from unalike.algorithms.draft import Draft
from unalike.algorithms.method import NO_NOISE, WeightRule
from unalike.cohort import Cohort
from unalike.parts.mixing.base import Weighed
from unalike.parts.mixing.disco import ROUNDING, AllZero, Disco, by_sum
from unalike.parts.mixing.questions import LabelCounts, Question
from unalike.settings import setting

Discrepancy = Literal["kl", "l1", "l2", "cosine"]


class FedDisco(WeightRule):
    """Clients whose labels are far from those of the test data count less."""

    paper: ClassVar[str] = "Ye et al. 2023, arXiv 2305.19229"

    a: float = setting(0.5, "how much a discrepancy costs", ge=0, source="authors' code")
    b: float = setting(0.1, "what is added to every client's weight", ge=0, source="authors' code")
    discrepancy: Discrepancy = setting(
        "kl",
        "distance of a client's label distribution from the reference",
        source="authors' code",
    )
    normalise: Literal["kl", "always", "never"] = setting(
        "kl",
        "divide by the sum over the cohort: KL only (authors' code), always or never",
        source="authors' code",
    )
    reference: list[float] = setting(
        [],
        "shares of the classes in the test data; if empty, all the same",
        source="authors' code: uniform unless the test data are not",
    )
    on_all_zero: AllZero = setting(
        "size",
        "weights if the formula gives none: sizes, an error, or all to the smallest discrepancy",
        source="our choice: the authors' code ends with an error there",
    )
    survey_epsilon: float = setting(
        0.0, "differential privacy of the label survey; 0: no noise", ge=0, source=NO_NOISE
    )

    @model_validator(mode="after")
    def _a_distribution(self) -> Self:
        if self.reference and (min(self.reference) < 0 or sum(self.reference) <= 0):
            raise ValueError("reference must have shares of at least 0, not all of them zero")
        if self.discrepancy == "kl" and self.reference and min(self.reference) == 0:
            raise ValueError(
                "reference gives a class the share 0, which makes the KL divergence infinite; "
                'use discrepancy = "l1", "l2" or "cosine"'
            )
        return self

    def objection(self, draft: Draft) -> str:
        """Every class needs a share."""
        given, classes = len(self.reference), max(draft.classes, 2)
        if given in (0, classes):
            return ""
        return (
            f"method.reference gives {given} shares, but there are {classes} classes; give one "
            "share for each."
        )

    @property
    def survey(self) -> tuple[Question, ...]:
        """Label counts, once."""
        return (LabelCounts(self.survey_epsilon),)

    def weights(self, state: Any, cohort: Cohort) -> Weighed:
        """Everything over the cohort: shares, the sum of d, and the weights."""
        counts = cohort.survey["label_counts"][cohort.ids].double()
        q = counts / counts.sum(1, keepdim=True)
        r = torch.tensor(self.reference or [1.0] * q.shape[1], dtype=torch.float64)
        d = discrepancies(q, r / r.sum(), self.discrepancy)
        if self.normalise == "always" or self.normalise == self.discrepancy:
            d = by_sum(d)
        p, note = Disco(self.a, self.b, self.on_all_zero)(cohort.share, d)
        return Weighed(p, state, note, {"d": d})


def discrepancies(q: Tensor, reference: Tensor, kind: Discrepancy) -> Tensor:
    """How far each row of ``q``, a label distribution, is from the reference, [K].

    >>> discrepancies(torch.tensor([[0.8, 0.2]]), torch.tensor([0.5, 0.5]), "l1")
    tensor([0.6000])
    """
    if kind == "kl":
        d = (torch.xlogy(q, q) - torch.xlogy(q, reference)).sum(1)
    elif kind == "cosine":
        d = 1 - torch.cosine_similarity(q, reference[None], dim=1)
    else:
        d = torch.linalg.vector_norm(q - reference, ord=1 if kind == "l1" else 2, dim=1)
    return torch.where(d > ROUNDING, d, 0.0)  # or dividing by the sum would blow up rounding
