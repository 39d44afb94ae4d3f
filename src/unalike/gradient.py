"""Gradients of pure functions, by the cheapest means that the surroundings allow."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch  # the only public-free way to ask whether we are inside vmap

from unalike import tree
from unalike.tree import Tree


def gradient(f: Callable[[Tree], tuple[Tensor, Any]], at: Tree) -> tuple[Tree, Any]:
    """(the gradient of the first output of ``f`` at a pytree, the second output).

    Inside vmap this is ``torch.func.grad``. Alone it is the ordinary tape, which gives the same
    numbers with about a third of the overhead on a small network.
    """
    if _functorch.peek_interpreter_stack() is not None:
        return torch.func.grad(f, has_aux=True)(at)
    with torch.enable_grad():
        leaves = tree.map(lambda x: x.detach().requires_grad_(), at)
        value, aux = f(leaves)
        flat = torch.autograd.grad(value, tree.leaves(leaves), allow_unused=True)
    slopes = iter(flat)

    def take(x: Tensor) -> Tensor:
        g = next(slopes)
        return torch.zeros_like(x) if g is None else g

    return tree.map(take, at), tree.map(torch.Tensor.detach, aux)
