"""Coordinate-wise median of the updates (Yin et al. 2018).

The rule is in ``parts/filters/median.py``. Everybody counts the same: a client that claims many
examples gets no more say.
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.defence import Defence
from unalike.algorithms.method import Draft
from unalike.parts.filters.median import Median
from unalike.parts.mixing.examples import Uniform


class MedianMethod(Defence):
    """The median of every coordinate: fewer than half of the clients cannot move it far."""

    paper: ClassVar[str] = "Yin et al. 2018, arXiv 1803.01498"

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        return replace(draft, mixing=Uniform(), filters=(Median(),))
