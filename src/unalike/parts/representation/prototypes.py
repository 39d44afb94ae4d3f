"""Prototypes: what a network makes of the examples of a class, on average (Snell et al. 2017).

C^j = mean of the representations of the examples of class j;   the class of x is argmin_j
||h(x) - C^j||, which is argmax_j 2 <C^j, h(x)> - ||C^j||^2: a linear head on the representation
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike.batches import Batch, Batches
from unalike.network import Network
from unalike.parts.representation.cut import inner
from unalike.tree import Params

UNKNOWN = -1e4  # the logit of a class without a prototype


class Prototypes(NamedTuple):
    """Every class's mean representation, and what stands behind it; 0: the class is not known."""

    x: Tensor  # [classes, width]
    mass: Tensor  # [classes]

    def renewed(self, total: Tensor, mass: Tensor) -> "Prototypes":
        """Means where something stands behind a class, as before elsewhere; also stacked."""
        known = mass > 0
        x = total / torch.where(known, mass, 1.0)[..., None]
        x = torch.where(known[..., None], x, self.x)
        return Prototypes(x, torch.where(known, mass, self.mass))

    def beside_classes(self, z: Tensor, batch: Batch) -> Tensor:
        """The sum, over the classes of a minibatch, of the distance of its mean from theirs."""
        total, count = by_class(z, batch, len(self.mass))
        gap = (total / count.clamp(min=1)[:, None] - self.x).square().sum(1)
        # A length has no derivative at 0, where there is nothing to pull.
        return (gap.clamp(min=1e-12).sqrt() * ((count > 0) & (self.mass > 0))).sum()

    def beside_examples(self, z: Tensor, batch: Batch) -> Tensor:
        """The mean squared difference of each row from the prototype of its class."""
        known = batch.real & (self.mass > 0)[batch.y]
        each = (z - self.x[batch.y]).square().mean(1)
        return (each * known).sum() / batch.real.sum().clamp(min=1)

    def head(self, layer: str) -> Params:
        """The leaves of a linear layer that takes a row for the class of the nearest prototype."""
        bias = torch.where(self.mass > 0, -self.x.square().sum(1), UNKNOWN)
        return {f"{layer}.weight": 2 * self.x, f"{layer}.bias": bias}


def by_class(z: Tensor, batch: Batch, classes: int) -> tuple[Tensor, Tensor]:
    """([classes, width] sums of the real rows of each class, [classes] their number)."""
    member = (batch.y[:, None] == torch.arange(classes, device=z.device)) & batch.real[:, None]
    return member.to(z).T @ z, member.sum(0).to(z)


@dataclass(frozen=True)
class _Sums:
    """Adds up the representations of each class; given is the model that makes them."""

    tap: Network
    classes: int

    def __call__(self, carry: tuple[Tensor, Tensor], batch: Batch, given: Params) -> Any:
        """The sums after one more minibatch."""
        _, z = self.tap.eval(inner(given), batch.x, batch.real)
        total, count = by_class(z.flatten(1), batch, self.classes)
        return carry[0] + total, carry[1] + count


def made(tap: Network, w: Params, data: Batches, like: Prototypes) -> Prototypes:
    """The prototypes of a client's examples by its model, and how many are behind each.

    In evaluation mode, over its first epoch: every example once, or those that it trains on.
    """
    blank = torch.zeros_like(like.x), torch.zeros_like(like.mass)
    total, count = data.epochs(0, 1).fold(_Sums(tap, len(like.mass)), blank, w)
    return Prototypes(total / count.clamp(min=1)[:, None], count)
