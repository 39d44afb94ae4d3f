"""FedEP: averaging by entropy pooling of the clients' label mixtures.

A survey before round 0, then fixed weights; the mathematics and its two readings are in
``parts/mixing/entropy_pool.py``, the client's question in ``parts/mixing/label_mixture.py``.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.method import Draft, Method, Slot
from unalike.parts.mixing.entropy_pool import Direction, EntropyPool, Labels, Mode
from unalike.parts.mixing.label_mixture import Bic


class FedEp(Method):
    """Clients whose label mixture differs most from the pooled one weigh most."""

    slot: ClassVar[Slot] = "weights"
    paper: ClassVar[str] = "FedEP, entropy pooling of label distributions"

    mode: Mode = Field(
        default="floor", description="formula with a floor, bare formula, or the printed listing"
    )
    direction: Direction = Field(
        default="proportional", description="weight grows with the divergence, or shrinks"
    )
    rho: float = Field(
        default=0.5, gt=0, le=1, description="mixture parts at most, as a share of the labels"
    )
    epsilon: float = Field(
        default=0.01,
        gt=0,
        description="the floor under every probability, and under divergences where the direction "
        "is inverse",
    )
    survey_epsilon: float = Field(
        default=0.0, ge=0, description="differential privacy of the label survey; 0: no noise"
    )
    label_set: Labels = Field(
        default="global",
        description="labels at which mixtures are compared: all, or those of the aggregator's own "
        "data (its own clients', if it has none)",
    )
    bic: Bic = Field(
        default="auto",
        description="parameters counted for M parts: 3M-1 (textbook) or M (thesis); auto: M in the "
        "listing",
    )
    renormalise: bool = Field(
        default=True, description="let the weights of those that answered sum to one"
    )
    variance_floor: float = Field(
        default=0.01,
        ge=1e-6,
        description="least variance of a mixture's part, except in the listing, which adds 0.01",
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        classes = max(draft.classes, 2)
        return replace(draft, mixing=EntropyPool(classes, **self.model_dump()))
