"""Krum and Multi-Krum (Blanchard et al. 2017).

The rule is in ``parts/filters/krum.py``. It trusts the updates that have the closest company, so it
needs to know how many clients may lie, and that they are a clear minority.
"""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from unalike.algorithms.defence import Defence, answers
from unalike.algorithms.method import Draft
from unalike.errors import ConfigError
from unalike.parts.filters.krum import Krum
from unalike.parts.mixing.examples import Uniform
from unalike.recipe import Recipe


class KrumMethod(Defence):
    """Only the updates with the closest neighbours count: one (Krum) or several (Multi-Krum)."""

    paper: ClassVar[str] = "Blanchard et al. 2017, arXiv 1703.02757"

    attackers: int = Field(default=1, ge=0, description="how many answers of a round may be lies")
    select: int = Field(
        default=1, ge=1, description="updates averaged: 1 is Krum, more is Multi-Krum"
    )

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        return replace(
            draft,
            mixing=Uniform(),
            filters=(Krum(self.attackers, self.select),),
            checks=(*draft.checks, self._suffices),
        )

    def _suffices(self, draft: Draft, recipe: Recipe) -> None:
        n, f = answers(draft), self.attackers
        if n < 2 * f + 3:
            raise ConfigError(
                f"method 'krum' against {f} attackers needs at least {2 * f + 3} answers in a "
                f"round, there are {n}; lower method.attackers or let more clients take part."
            )
        if self.select > n - f:
            raise ConfigError(
                f"method.select = {self.select} is more than the {n - f} of {n} answers that are "
                f"honest for certain; choose at most {n - f}."
            )
