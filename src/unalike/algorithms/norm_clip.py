"""Norm clipping (Sun et al. 2019): the server shortens updates that are too long.

The rule is in ``parts/filters/norm_clip.py``. It bounds what one client can do in a round and
leaves the weights alone; a large enough bound is FedAvg.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from unalike.algorithms.defence import Defence
from unalike.algorithms.method import Draft
from unalike.parts.filters.norm_clip import NormClip


class NormClipMethod(Defence):
    """No update is longer than a bound, so nobody can push the model far in one round."""

    refuses: ClassVar[Mapping[str, str]] = {}  # it leaves the weights alone
    paper: ClassVar[str] = "Sun et al. 2019, arXiv 1911.07963"

    bound: Literal["median", "fixed"] = Field(
        default="median", description="the median length of the round, or a number"
    )
    norm: float = Field(default=1.0, gt=0, description="the longest update, if fixed")

    @model_validator(mode="after")
    def _no_idle_norm(self) -> Self:
        if self.bound == "median" and self.norm != type(self).model_fields["norm"].default:
            raise ValueError('norm belongs to bound = "fixed"; leave it out or set that')
        return self

    def change(self, draft: Draft) -> Draft:
        """Fill the filter."""
        norm = self.norm if self.bound == "fixed" else None
        return replace(draft, filters=(NormClip(norm),))
