"""Hides protected attributes from networks; only adversaries see them."""

import copy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from unalike.federation.data import Examples
from unalike.models.base import Model
from unalike.run.experiment.fit import misfit


@dataclass(frozen=True)
class Blinkers:
    """Takes the last columns off what a module is given."""

    columns: int

    def __call__(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Any, ...]:
        """The arguments that the module sees."""
        x, *more = args
        return (x[..., : x.shape[-1] - self.columns], *more)


def blind(
    model: Model, shape: tuple[int, ...], outputs: int, protected: tuple[str, ...]
) -> nn.Module:
    """The model for features without the protected ones, given features with them."""
    if not protected:
        return model.build(shape, outputs)
    module = model.build((shape[0] - len(protected), *shape[1:]), outputs)
    module.register_forward_pre_hook(Blinkers(len(protected)))
    return module


def hidden(module: nn.Module, examples: Examples, what: str) -> nn.Module:
    """The same for a module that was given: a copy, if there is something to hide from it."""
    if not examples.protected:
        return module
    try:
        own = copy.deepcopy(module)
    except Exception as error:  # the module is the user's
        raise misfit(what, examples, error) from error
    own.register_forward_pre_hook(Blinkers(len(examples.protected)))
    return own
