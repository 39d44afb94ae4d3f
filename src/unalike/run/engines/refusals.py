"""What a network cannot be computed by, found out by a step on two rows."""

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from unalike import rng, tree
from unalike.batches import Batch, Batches
from unalike.draws import Draw, Extent
from unalike.engine.compiled.traced import Traced
from unalike.federation.data import Examples
from unalike.generator import TORCH
from unalike.gradient import gradient
from unalike.network import Network
from unalike.own_code import reason
from unalike.parts.descent import Loss, descend
from unalike.parts.optim import Sgd
from unalike.tasks import Task
from unalike.tree import Params

_answers: WeakKeyDictionary[Network, dict[Any, str]] = WeakKeyDictionary()


def refused(question: Callable[[Task, Examples], str], made: Task, examples: Examples) -> str:
    """The answer to a question that takes a step on two rows, asked once for a network."""
    x, y = examples.x, examples.y
    key = question.__name__, type(made), x.shape[1:], x.dtype, y.shape[1:], y.dtype
    known = _answers.setdefault(made.network, {})
    if key not in known:
        known[key] = question(made, examples)
    return known[key]


def refusal_of_tracing(made: Task, examples: Examples) -> str:
    """Why a step of plain training cannot be traced; empty if it can."""
    row, real = torch.arange(2)[None], torch.ones(1, 2, dtype=torch.bool)
    draw = Draw(row, real, ~real, torch.zeros(1, dtype=torch.int64))
    traced = Traced(said=False)
    extent = Extent(np.ones((1, 1), dtype=np.int64), (2,))
    x, y = examples.x[:2], examples.y[:2]
    data = Batches(x, y, draw, rng.key(0), extent, repeat=traced)
    if made.network.seeds_global:
        return "it draws from PyTorch's generator"
    descend(Loss(made), Sgd(0.1), *made.split(made.network.given()), data, torch.tensor(1.0))
    return next(iter(traced.refusals), "")


def refusal_of_vmap(made: Task, examples: Examples) -> str:
    """Why the network cannot be computed for many clients in one call; empty if it can."""
    w = made.network.given()
    if made.network.seeds_global:
        layer = made.network.drawing(lambda: training_step(made, w, examples.x[:2], examples.y[:2]))
        return f"{layer} draws from {TORCH}, as F.dropout does and nn.Dropout would not"
    x, y = (torch.stack([t[:2], t[:2]]) for t in (examples.x, examples.y))
    step, own = partial(training_step, made), tree.stack([w, w])
    try:  # as in a run: rows of each client, with weights that all have first, then with their own
        vmap(step, in_dims=(None, 0, 0))(w, x, y)
        vmap(step)(own, x, y)
        with torch.no_grad():  # where layers may compute in another way
            vmap(partial(_tested, made))(own, x)
    except Exception as error:
        return f"{_layer(error)}{reason(error)}"
    return ""


def _tested(made: Task, w: Params, x: Tensor) -> Tensor:
    """The scores of two examples."""
    real = torch.ones(2, dtype=torch.bool, device=x.device)
    return made.outputs(w, x, torch.zeros(2, made.draws, device=x.device), real)


def _layer(error: Exception) -> str:
    """The innermost layer that an error came through, to name it; empty if none."""
    name = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if isinstance(module := frame.f_locals.get("self"), nn.Module):
            name = f"{type(module).__name__}: "
    return name


def training_step(made: Task, w: Params, x: Tensor, y: Tensor) -> Any:
    """The gradient of one training step on two examples."""
    batch = Batch(x, y, torch.ones(2, dtype=torch.bool), rng.key(0))
    weights, buffers = made.split(w)
    return gradient(lambda v: made.loss({**v, **buffers}, batch), weights)
