"""A network tried on the data, forwards and backwards, before anything long begins."""

import traceback
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.parameter import UninitializedParameter

from unalike import rng, tree
from unalike.batches import Batch
from unalike.errors import ConfigError, UnalikeError
from unalike.federation.data import Examples
from unalike.generator import TORCH, draws
from unalike.gradient import gradient
from unalike.network import Network
from unalike.own_code import reason
from unalike.tasks import TASKS, NetworkTask, Task
from unalike.tree import Params


def outputs(examples: Examples) -> int:
    """How many numbers a network must give for an example."""
    return TASKS[examples.kind].width(examples.classes)


def fit(
    module: nn.Module,
    examples: Examples,
    what: str,
    track: bool = True,
    learn: Callable[[Network], NetworkTask] | None = None,
    kernels: bool = False,
    bf16: bool = False,
    start: str = "glorot",
    alike: Hashable = None,
) -> NetworkTask:
    """The task of learning the examples with the module, if it can.

    Args:
        module: The network; a copy is used.
        examples: The data.
        what: The model as an error names it.
        track: Whether batch normalisation keeps running statistics.
        learn: The task that the module is made for; left out, the data's labels decide.
        kernels: Whether convolutions for many weight sets have kernels of their own.
        bf16: Whether a GPU multiplies numbers of 16 bits while training.
        start: The distribution of fresh weights.
        alike: Equal for modules that compute the same from the same weights.
    """
    learn = TASKS[examples.kind] if learn is None else learn
    x, y = examples.x[:2].clone(), examples.y[:2]
    try:
        _refuse_unmade(module, what)
        how = {"kernels": kernels, "bf16": bf16, "start": start, "alike": alike}
        network = Network(module, track_statistics=track, **how)  # type: ignore[arg-type]
        made = learn(network).scaled(examples.unit)
        if not made.network.weights:
            raise ConfigError(f"{what} has no weights to train; use a model with parameters.")
        found: list[str] = []
        drawn = draws(lambda: found.append(made.misfit(x, y, examples.classes, examples.name)))
        wrong = found[0]
        if not wrong:
            drawn = drawn or draws(lambda: _step(made, made.network.given(), x, y))
        if drawn and drawn != TORCH:
            raise ConfigError(
                f"{what} draws from {drawn} in its forward pass, which a run's seed does not "
                "control; draw with torch instead."
            )
        made.network.seeds_global = bool(drawn)
        if not torch.equal(x.nan_to_num(), examples.x[:2].nan_to_num()):
            raise ConfigError(
                f"{what} changes its input in place, and with it the data; work on a copy, such "
                "as x = x + 1 instead of x += 1."
            )
    except (UnalikeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the module is the user's, and so may be anything it raises
        raise misfit(what, examples, error) from error
    if wrong:
        raise ConfigError(f"{what} {wrong}.")
    return made


def _refuse_unmade(module: nn.Module, what: str) -> None:
    """Weights without numbers cannot be copied yet."""
    for name, weight in module.named_parameters():
        if isinstance(weight, UninitializedParameter):
            raise ConfigError(
                f"{what} has a lazy layer at '{name}', whose size is not known yet; give its "
                "size, or call the model once on some rows where it is created."
            )
        if weight.is_complex():
            raise ConfigError(
                f"{what} has complex numbers in '{name}', which cannot be saved; keep their real "
                "and imaginary parts as two."
            )
        if weight.is_meta:
            raise ConfigError(
                f"{what} has no numbers in '{name}' (device 'meta'); make it on the CPU."
            )


def misfit(what: str, examples: Examples, error: BaseException) -> ConfigError:
    """The error for a model that fails on the data."""
    return ConfigError(
        f"{what} cannot be used on '{examples.name}' (examples of shape "
        f"{tuple(examples.x.shape[1:])}, {outputs(examples)} outputs): {reason(error)}."
    )


def refusal_of_vmap(made: Task, examples: Examples) -> str:
    """Why the network cannot be computed for many clients in one call; empty if it can."""
    w = made.network.given()
    if made.network.seeds_global:
        layer = made.network.drawing(lambda: _step(made, w, examples.x[:2], examples.y[:2]))
        return f"{layer} draws from {TORCH}, as F.dropout does and nn.Dropout would not"
    x, y = (torch.stack([t[:2], t[:2]]) for t in (examples.x, examples.y))
    step = partial(_step, made)
    try:  # as in a run: rows of each client, with weights that all have first, then with their own
        vmap(step, in_dims=(None, 0, 0))(w, x, y)
        vmap(step)(tree.stack([w, w]), x, y)
    except Exception as error:
        return f"{_layer(error)}{reason(error)}"
    return ""


def _layer(error: Exception) -> str:
    """The innermost layer that an error came through, to name it; empty if none."""
    name = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if isinstance(module := frame.f_locals.get("self"), nn.Module):
            name = f"{type(module).__name__}: "
    return name


def _step(made: Task, w: Params, x: Tensor, y: Tensor) -> Any:
    """The gradient of one training step on two examples."""
    batch = Batch(x, y, torch.ones(2, dtype=torch.bool), rng.key(0))
    weights, buffers = made.split(w)
    return gradient(lambda v: made.loss({**v, **buffers}, batch), weights)
