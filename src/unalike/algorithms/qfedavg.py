"""q-FedAvg (Li et al. 2020, Alg. 2): clients with a higher loss count more, by a power of it.

minimise sum_i (n_i / n) F_i^(q+1) / (q+1);   q = 0 is FedAvg
The rule is in ``parts/mixing/q_fair.py``. Its L is one over the learning rate. Where the rate
falls over rounds L stays at the first one, as in the authors' code; set ``lipschitz`` for another.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.fair import Fair
from unalike.algorithms.method import Draft, plain_sgd
from unalike.parts.mixing.q_fair import QFair


class QFedAvg(Fair):
    """Updates count by a power of the loss, over an estimate of curvature."""

    refuses = {
        **Fair.refuses,
        "defence": "its weights belong to the updates as they were sent, which a defence changes",
    }
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # weights for updates, not models
    paper: ClassVar[str] = "Li et al. 2020, arXiv 1905.10497"

    q: float = Field(default=1.0, ge=0, description="power of the loss; 0 is FedAvg")
    by_examples: bool = Field(
        default=True, description="times the number of examples (text), or not (authors' code)"
    )
    lipschitz: float | None = Field(
        default=None, gt=0, description="L; one over the first learning rate if left out"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights; only plain SGD's learning rate says what L is."""
        L = self.lipschitz or 1 / plain_sgd(draft, "qfedavg").lr
        return replace(draft, mixing=QFair(self.q, L, self.by_examples))
