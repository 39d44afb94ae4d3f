"""The inner loop shared by every method that descends on a loss."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unalike import tree
from unalike.batches import Batch, Batches
from unalike.gradient import gradient
from unalike.parts.optim import Optimizer
from unalike.tasks import Task
from unalike.tree import Params


class Descent(NamedTuple):
    """Where local training ended."""

    w: Params  # weights and buffers
    opt: Any
    steps: Tensor


def descend(
    task: Task,
    w: Params,
    data: Batches,
    opt: Optimizer,
    rate: Tensor,
    *,
    term: Callable[[Params], Tensor | float] | None = None,
    shift: Params | None = None,
    state: Any = None,
) -> Descent:
    """Run ``opt`` on the task's loss plus ``term`` over ``data``, from ``w``.

    ``shift`` is added to every gradient; ``state`` continues an earlier optimizer. Only trainable
    weights have gradients; buffers move by the forward passes.
    """
    theta, buffers = task.split(w)

    def step(carry: Any, batch: Batch) -> Any:
        theta, buffers, s, k = carry

        def objective(theta):  # type: ignore[no-untyped-def]
            loss, new = task.loss({**theta, **buffers}, batch)
            return (loss if term is None else loss + term(theta)), new

        g, buffers = gradient(objective, theta)
        if shift is not None:
            g = tree.add(g, shift)
        theta, s = opt.update(g, s, theta, rate)
        return theta, buffers, s, k + 1

    start = opt.init(theta) if state is None else state
    zero = torch.zeros((), device=rate.device)
    theta, buffers, s, k = data.fold(step, (theta, buffers, start, zero))
    return Descent({**theta, **buffers}, s, k)
