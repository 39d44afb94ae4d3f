"""Clients sampled in proportion to their examples (Li et al. 2020, scheme I).

cohort: without replacement, each next client with chance n_k;   x <- x + mean of the updates
"""

from dataclasses import replace
from typing import ClassVar

from unalike.algorithms.draft import Draft
from unalike.algorithms.selecting import SelectionMethod
from unalike.parts.mixing.examples import Uniform
from unalike.parts.participation.schedule import Schedule
from unalike.parts.participation.selection import BySize, Selected


class BySizeMethod(SelectionMethod):
    """Clients with more examples are chosen more often, but count the same when they answer."""

    paper: ClassVar[str] = "Li et al. 2020, arXiv 1907.02189"

    def change(self, draft: Draft) -> Draft:
        """Choose by size; sizes are in the choice, so not in the mean."""
        return replace(draft, mean=Uniform(), schedule=_schedule)


def _schedule(draft: Draft) -> Schedule:
    return Selected(draft.participation, draft.epochs, selection=BySize())
