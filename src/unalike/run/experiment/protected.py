"""Hides protected attributes from networks; only adversaries see them."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from unalike.models.base import Model


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
