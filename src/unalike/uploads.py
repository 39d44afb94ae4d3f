"""What came back from the clients of one server, in the form its rule asks for.

Nearly every rule is a weighted mean, and a mean needs no more memory than one upload: it can be
summed as answers come, chunk by chunk or machine by machine. Only rules that compare updates with
one another (medians, Krum) ask for all of them at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unalike import tree
from unalike.errors import RunError
from unalike.tree import Tree


def _all(up: Tree) -> Tree:
    return up


class Uploads(Protocol):
    """The uploads of a cohort, in the order of its ids."""

    def mean(self, p: Tensor, of: Callable[[Tree], Tree] = _all) -> Tree:
        """The sum over k of p_k of(u_k), where ``of`` picks a part of an upload."""
        ...

    def stack(self) -> Tree:
        """All of them with a leading client axis: memory grows with the cohort."""
        ...


@dataclass(frozen=True)
class Stacked:
    """Uploads that are all in memory."""

    ups: Tree

    def mean(self, p: Tensor, of: Callable[[Tree], Tree] = _all) -> Tree:
        """One product of the weights with every leaf."""
        return tree.mean(p, of(self.ups))

    def stack(self) -> Tree:
        """As they are."""
        return self.ups


class Gone(Exception):
    """Clients that answered are missing from the sum that was to include them."""

    def __init__(self, ids: list[int]) -> None:
        """``ids`` are their numbers."""
        super().__init__(f"no sum with clients {ids}")
        self.ids = ids


class NotSummed(Exception):
    """A rule asked for more than the sum that was made while answers came in."""


@dataclass(frozen=True)
class Summed:
    """The sum over k of u_k times upload k, where nothing else was kept."""

    total: Tree
    u: Tensor  # [n] what each upload was multiplied by

    def mean(self, p: Tensor, of: Callable[[Tree], Tree] = _all) -> Tree:
        """The sum scaled, if the weights are in proportion to those it was made with."""
        ratio = p.double().cpu() / self.u.double().cpu()
        if not torch.allclose(ratio, ratio[:1].expand_as(ratio), rtol=1e-9, atol=0):
            raise NotSummed
        return tree.map(lambda x: float(ratio[0].to(x.dtype)) * x, of(self.total))

    def stack(self) -> Tree:
        """Not there."""
        raise NotSummed


@dataclass
class Sealed:
    """Uploads that nobody sees: one sum of them is made elsewhere, with given weights."""

    ids: Tensor
    total: Callable[[Tensor, Tensor], Tree]  # (clients, weights) -> the weighted sum
    held: Summed | None = None

    def mean(self, p: Tensor, of: Callable[[Tree], Tree] = _all) -> Tree:
        """The sum; a second one only if its weights are in proportion to the first one's."""
        if self.held is None:
            self.held = Summed(self.total(self.ids, p), p)
        if torch.equal(p, self.held.u):
            return of(self.held.total)
        try:
            return self.held.mean(p, of)
        except NotSummed:
            return self.stack()

    def stack(self) -> Tree:
        """Not there."""
        raise RunError(
            "the method needs more than one sum of a round's updates, and secure aggregation "
            "reveals only one; set deploy.secure_aggregation to false."
        )
