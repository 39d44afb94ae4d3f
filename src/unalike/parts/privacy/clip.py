"""Clipping of a whole update, all its leaves seen as one vector."""

import torch
from torch import Tensor

from unalike import tree
from unalike.tree import Tree


def length(up: Tree) -> Tensor:
    """The Euclidean length of an update."""
    return tree.sqnorm(up).sqrt()


def clip(up: Tree, norm: float | Tensor) -> Tree:
    """u min(1, norm / |u|); an update that is not finite becomes zero.

    Pure and without branches, so it runs alone on a client or vmapped over stacked updates.

    >>> clip({"w": torch.tensor([3.0, 4.0])}, 1.0)
    {'w': tensor([0.6000, 0.8000])}
    """
    size = length(up)
    sound = torch.isfinite(size)
    factor = (norm / size.clamp(min=1e-30)).clamp(max=1)
    return tree.map(lambda x: torch.where(sound, x * factor.to(x), torch.zeros_like(x)), up)
