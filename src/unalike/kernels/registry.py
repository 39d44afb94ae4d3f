"""How an operator with a derivative and a vmap rule becomes PyTorch's own.

``torch.library.custom_op`` and ``register_autograd`` are made for this, but their derivative does
not work inside ``torch.func.grad``, and ``torch.autograd.Function``, whose does, costs close to a
millisecond of Python in each call. So the derivative is registered here, where PyTorch's own
operators have theirs: at the dispatcher's autograd key, one level of ``grad`` at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import _C, Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from unalike.kernels.geometry import Pair

F = TypeVar("F", bound=Callable[..., Any])
_LIBRARY = torch.library.Library("unalike", "FRAGMENT")


def operator(name: str, schema: str) -> Callable[[F], F]:
    """Register a function of tensors as ``unalike::name``; its derivative comes apart."""

    def register(f: F) -> F:
        _LIBRARY.define(name + schema)
        _LIBRARY.impl(name, f, "CompositeExplicitAutograd")
        return cast(F, getattr(torch.ops.unalike, name).default)

    return register


def fake(name: str) -> Callable[[F], F]:
    """Register what shape and layout ``unalike::name`` returns, for code that only traces it."""

    def register(f: F) -> F:
        torch.library.register_fake(f"unalike::{name}", f, lib=_LIBRARY)
        return f

    return register


def derivative(
    op: Any, setup: Callable[[Any, tuple[Any, ...], Any], None], backward: Callable[..., Any]
) -> None:
    """Register ``backward(ctx, *gradients)`` for what ``setup(ctx, inputs, output)`` kept.

    One gradient or None for every input. Both may use operators that have derivatives themselves.
    """

    def below(keyset: Any, *inputs: Any) -> Any:
        with _C._AutoDispatchBelowAutograd():
            return op.redispatch(keyset & _C._after_autograd_keyset, *inputs)

    class Node(_SingleLevelFunction):
        @staticmethod
        def forward(ctx: Any, keyset: Any, *inputs: Any) -> Any:
            with torch.enable_grad():  # what is not this level's concern may be an outer grad's
                output = below(keyset, *inputs)
            setup(ctx, inputs, output)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return None, *backward(ctx, *gradients)

    def kernel(keyset: Any, *inputs: Any) -> Any:
        tracked = any(isinstance(t, Tensor) and t.requires_grad for t in inputs)
        if not (tracked and torch.is_grad_enabled()):
            return below(keyset, *inputs)
        with enable_single_level_autograd_function():
            return cast(Any, Node).apply(keyset, *inputs)

    _LIBRARY.impl(op._schema.name.split("::")[1], kernel, "Autograd", with_keyset=True)


def mapped(op: Any, rule: Callable[..., Any]) -> None:
    """Register ``rule(info, dims, *inputs)`` -> (output, its dims) for vmap."""
    torch.library.register_vmap(op, rule, lib=_LIBRARY)


def pair(values: Sequence[int]) -> Pair:
    """Two numbers, as operators get them."""
    one, two = values
    return one, two
