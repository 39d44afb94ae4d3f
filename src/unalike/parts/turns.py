"""Local training in turns: a step on some of the weights, then one on the others from there.

theta_1 <- theta_1 - eta grad_1 L(theta_1, theta_2)
theta_2 <- theta_2 - eta grad_2 L(theta_1, theta_2)     (on the same batch, at the new theta_1)
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unalike import tree
from unalike.batches import Batch, Batches
from unalike.gradient import gradient
from unalike.parts.local import Descent
from unalike.parts.optim import Optimizer
from unalike.tasks import Task
from unalike.tree import Params


def in_turns(
    task: Task,
    w: Params,
    data: Batches,
    opt: Optimizer,
    rate: Tensor,
    first: Callable[[str], bool],
    *,
    term: Callable[[Params], Tensor | float] | None = None,
) -> Descent:
    """``descend`` with two steps on every batch, of the weights that are ``first`` and the others.

    Each part has an optimizer state of its own. Both steps make the same draws, and buffers move by
    the forward passes of the first, so a batch counts as one step.
    """
    theta, buffers = task.split(w)
    parts = tuple(part for part in tree.split(theta, first) if part)

    def step(carry: Any, batch: Batch) -> Any:
        parts, buffers, states, k = carry
        theta = {name: leaf for part in parts for name, leaf in part.items()}
        moved, kept = buffers, []
        for i, part in enumerate(parts):

            def objective(part, theta=theta):  # type: ignore[no-untyped-def]
                whole = {**theta, **part}
                loss, new = task.loss({**whole, **buffers}, batch)
                return (loss if term is None else loss + term(whole)), new

            g, new = gradient(objective, part)
            moved = moved if i else new
            part, state = opt.update(g, states[i], part, rate)
            theta = {**theta, **part}
            kept.append((part, state))
        done, after = zip(*kept, strict=True)
        return done, moved, after, k + 1

    zero = torch.zeros((), device=rate.device)
    start = (parts, buffers, tuple(map(opt.init, parts)), zero)
    parts, buffers, states, k = data.fold(step, start)
    return Descent({**{n: v for part in parts for n, v in part.items()}, **buffers}, states, k)
