"""A set of examples is judged by a classifier that has seen nothing else."""

import torch
from torch import Tensor

from unalike import rng, tree
from unalike.batches import Batch
from unalike.gradient import gradient
from unalike.parts.optim import Adam
from unalike.rng import Key
from unalike.tasks import Task
from unalike.tree import Params


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
