"""Coordinate-wise trimmed mean of the updates (Yin et al. 2018).

The rule is in ``parts/filters/trimmed_mean.py``. It withstands a share of attackers up to ``trim``;
everybody counts the same.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.defence import Defence, answers
from unalike.algorithms.method import Draft
from unalike.errors import ConfigError
from unalike.parts.filters.trimmed_mean import TrimmedMean
from unalike.parts.mixing.examples import Uniform
from unalike.recipe import Recipe


class TrimmedMeanMethod(Defence):
    """The mean of every coordinate without its extremes at both ends."""

    paper: ClassVar[str] = "Yin et al. 2018, arXiv 1803.01498"

    trim: float = Field(
        default=0.2, ge=0, lt=0.5, description="share of the answers cut off at each end"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        return replace(
            draft,
            mixing=Uniform(),
            filters=(TrimmedMean(self.trim),),
            checks=(*draft.checks, self._trims),
        )

    def _trims(self, draft: Draft, recipe: Recipe) -> None:
        n = answers(draft)
        if self.trim and not TrimmedMean(self.trim).cut(n):
            raise ConfigError(
                f"method.trim = {self.trim:g} cuts off none of the {n} answers of a round; "
                f"set it to at least {1 / n:.3g}, or let more clients take part."
            )
