"""A network tried on the data, forwards and backwards, before anything long begins."""

from collections.abc import Callable, Hashable

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from unalike.errors import ConfigError, UnalikeError
from unalike.federation.data import Examples
from unalike.generator import TORCH, draws
from unalike.network import Network
from unalike.own_code import reason
from unalike.run.engines.refusals import training_step
from unalike.tasks import TASKS, NetworkTask


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
            drawn = drawn or draws(lambda: training_step(made, made.network.given(), x, y))
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
    (first, *rest), unseen = examples.x.shape[1:], examples.protected
    seen = f"{(first - len(unseen), *rest)}" + (f", without {', '.join(unseen)}" if unseen else "")
    return ConfigError(
        f"{what} cannot be used on '{examples.name}' (examples of shape {seen}, "
        f"{outputs(examples)} outputs): {reason(error)}."
    )
