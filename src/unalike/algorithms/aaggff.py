"""AAggFF (Hahn et al. 2024): fair weights learned online from the clients' losses.

AAggFF-S, for a few clients that all answer:   the rule is in ``parts/mixing/aaggff_s.py``
AAggFF-D, for samples of many clients:         the rule is in ``parts/mixing/aaggff_d.py``
The response to a loss is in ``parts/mixing/response.py``, the regret in ``parts/mixing/regret.py``.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.fair import Fair
from unalike.algorithms.method import Draft
from unalike.errors import ConfigError
from unalike.parts.mixing.aaggff_d import AaggffD
from unalike.parts.mixing.aaggff_s import AaggffS
from unalike.parts.mixing.response import Cdf


class AAggFFS(Fair):
    """Weights follow the clients' losses online, made for few clients that all take part."""

    refuses = {**Fair.refuses, "schedule": "it needs the loss of every client in every round"}
    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # one learner sees all losses
    paper: ClassVar[str] = "Hahn et al. 2024, arXiv 2405.20821"

    cdf: Cdf = Field(default="normal", description="how a loss becomes a response")
    low: float = Field(default=0.0, ge=0, description="least response (C1)")
    high: float | None = Field(
        default=None, gt=0, description="largest response (C2); one over the clients if left out"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        n = draft.n_clients
        answers = draft.participation.count(n)
        if answers < n:
            raise ConfigError(
                f"method 'aaggff_s' needs every loss in every round, but {answers} of "
                f"{n} take part: set participation.fraction = 1, or use 'aaggff_d'."
            )
        high = 1 / n if self.high is None else self.high
        if self.low >= high:
            raise ConfigError(
                f"method.low = {self.low:g} of 'aaggff_s' must be below the largest response "
                f"{high:.3g}; lower it or raise method.high."
            )
        return replace(draft, mixing=AaggffS(self.cdf, self.low, self.high, draft.rounds))


class AAggFFD(Fair):
    """Weights follow the clients' losses online, made for cohorts that are small samples."""

    topologies: ClassVar[frozenset[str]] = frozenset({"star"})  # one learner sees all losses
    paper: ClassVar[str] = "Hahn et al. 2024, arXiv 2405.20821"

    cdf: Cdf = Field(default="normal", description="how a loss becomes a response")

    def change(self, draft: Draft) -> Draft:
        """Fill the weights."""
        return replace(draft, mixing=AaggffD(self.cdf))
