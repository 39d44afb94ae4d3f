"""A set of synthetic examples: how it begins, and how good it is.

It is judged by a classifier that has seen nothing else.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.batches import Batch
from unalike.gradient import gradient
from unalike.parts.optim import Adam
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params


class Synthetic(NamedTuple):
    """The examples; their labels are balanced and never change."""

    x: Tensor
    y: Tensor


def noise(
    key: Key, shape: tuple[int, ...], classes: int, per_class: int, like: Tensor
) -> Synthetic:
    """Gaussian features of the type of ``like``, as many of each class."""
    y = torch.arange(classes).repeat_interleave(per_class)
    return Synthetic(rng.normal(key, len(y), *shape).to(like.dtype), y)


def outside(x: Tensor) -> str:
    """Where features are if not in [0, 1], as words after their name; empty if they are."""
    if not len(x) or bool(((x >= 0) & (x <= 1)).all()):
        return ""
    return f"go from {x.min():.3g} to {x.max():.3g}"


def trained_on(task: Task, x: Tensor, y: Tensor, epochs: int, key: Key) -> Params:
    """Fresh weights after so many steps of Adam on all examples at once."""
    fresh = tree.map(lambda w: w.to(x), task.init(key.cpu()))
    theta, buffers = task.split(fresh)
    adam, real = Adam(1e-3), torch.ones_like(y, dtype=torch.bool)
    state = adam.init(theta)
    for epoch in range(epochs):
        batch = Batch(x, y, real, rng.fold_in(key, epoch), epoch, epoch)
        g, new = gradient(lambda t: task.loss({**t, **buffers}, batch), theta)  # noqa: B023
        (theta, state), buffers = adam.update(g, state, theta), new
    return {**theta, **buffers}
