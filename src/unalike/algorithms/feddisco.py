"""FedDisco (Ye et al. 2023): weights by size and by how unlike the test labels a client's are.

d_k = KL(q_k || u), divided by its sum over the cohort;   u_k = max(0, n_k / n - a d_k + b)
p_k = u_k / sum of u

The rule is in ``parts/mixing/disco.py``. It replaces n_k / n and nothing else, so it goes with
FedProx, FedNova, SCAFFOLD, server optimizers and personal layers. a = b = 0 is FedAvg.
"""

from dataclasses import replace
from typing import ClassVar, Self

from pydantic import Field, model_validator

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.mixing.disco import AllZero, Disco, Discrepancy, LabelDisco, Normalise


class FedDisco(Method):
    """Clients whose labels are far from those of the test data weigh less."""

    slot: ClassVar[Slot] = "weights"
    paper: ClassVar[str] = "Ye et al. 2023, arXiv 2305.19229"

    a: float = Field(default=0.5, ge=0, description="how much a discrepancy costs")
    b: float = Field(default=0.1, ge=0, description="what every client is given on top")
    discrepancy: Discrepancy = Field(
        default="kl", description="distance of a client's label distribution from the reference"
    )
    normalise: Normalise = Field(
        default="kl",
        description="divide by the sum over the cohort: KL only (authors' code), always or never",
    )
    reference: list[float] = Field(
        default=[], description="shares of the classes in the test data; if empty, all the same"
    )
    on_all_zero: AllZero = Field(
        default="size",
        description="weights where the formula gives none: sizes, an error, or all to the least "
        "discrepancy",
    )
    survey_epsilon: float = Field(
        default=0.0, ge=0, description="differential privacy of the label survey; 0: no noise"
    )

    @model_validator(mode="after")
    def _a_distribution(self) -> Self:
        if self.reference and (min(self.reference) < 0 or sum(self.reference) <= 0):
            raise ValueError("reference must hold shares of at least 0 that are not all 0")
        if self.discrepancy == "kl" and self.reference and min(self.reference) == 0:
            raise ValueError(
                "reference gives a class the share 0, to which the KL divergence is infinite; "
                'use discrepancy = "l1", "l2" or "cosine"'
            )
        return self

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        rule = LabelDisco(
            max(draft.classes, 2),
            Disco(self.a, self.b, self.on_all_zero),
            self.discrepancy,
            self.normalise,
            tuple(self.reference) or None,
            self.survey_epsilon,
        )
        return replace(draft, mixing=rule)
