"""Products with weights that have more bits than what they are multiplied with.

Autocast rounds weights to 16 bits and widens their rounded gradient again, which is one pass over
all weights too many: the product that makes the gradient can write 32 bits itself. With a linear
layer as with a convolution the three derivatives of <g, x w'> are each other's derivatives; the
weights' ``short`` copy stands in for them, and no derivative is taken with respect to it.
"""

from typing import Any

import torch
from torch import Tensor

from unalike.kernels import registry
from unalike.kernels.functions import Dims, Gradients, by_client, by_image
from unalike.kernels.layout import wide


@registry.operator("product", "(Tensor x, Tensor w, Tensor short) -> Tensor")
def product(x: Tensor, w: Tensor, short: Tensor) -> Tensor:
    """Inputs [n, B, I] times weights [n, O, I]."""
    return torch.bmm(x, short.transpose(1, 2))


@registry.operator("product_input_gradient", "(Tensor g, Tensor w, Tensor short) -> Tensor")
def input_gradient(g: Tensor, w: Tensor, short: Tensor) -> Tensor:
    """The gradient with respect to the inputs, from that of the outputs [n, B, O]."""
    return torch.bmm(g, short)


@registry.operator("product_weight_gradient", "(Tensor x, Tensor g) -> Tensor")
def weight_gradient(x: Tensor, g: Tensor) -> Tensor:
    """The gradient with respect to the weights."""
    if x.is_cuda and x.element_size() == 2:
        return torch.bmm(g.transpose(1, 2), x, out_dtype=torch.float32)
    return torch.bmm(g.transpose(1, 2).to(wide(x.dtype)), x.to(wide(x.dtype)))


@registry.fake("product")
def _(x: Tensor, w: Tensor, short: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:2], w.shape[1])


@registry.fake("product_input_gradient")
def _(g: Tensor, w: Tensor, short: Tensor) -> Tensor:
    return g.new_empty(*g.shape[:2], w.shape[2])


@registry.fake("product_weight_gradient")
def _(x: Tensor, g: Tensor) -> Tensor:
    return x.new_empty(len(x), g.shape[2], x.shape[2], dtype=wide(x.dtype))


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _product_back(ctx: Any, g: Tensor) -> Gradients:
    x, w, short = ctx.saved_tensors
    _, inputs, weights, _ = ctx.needs_input_grad
    dx = input_gradient(g, w, short) if inputs else None
    return dx, weight_gradient(x, g) if weights else None, None


def _input_back(ctx: Any, v: Tensor) -> Gradients:
    g, w, short = ctx.saved_tensors
    _, outputs, weights, _ = ctx.needs_input_grad
    dg = product(v, w, short) if outputs else None
    return dg, weight_gradient(v, g) if weights else None, None


def _weight_back(ctx: Any, v: Tensor) -> Gradients:
    x, g = ctx.saved_tensors
    short = v.detach().to(x.dtype)
    return input_gradient(g, v, short), product(x, v, short)


def _mapped(op: Any) -> Any:
    def rule(info: Any, dims: Dims, x: Tensor, w: Tensor, short: Tensor) -> tuple[Tensor, int]:
        v = info.batch_size
        if dims[0] is not None and dims[1] is None and dims[2] is None:
            return op(by_image(x, dims[0]), w, short).unflatten(1, (v, -1)), 1
        sides = (by_client(v, t, dim) for t, dim in zip((x, w, short), dims, strict=True))
        return op(*sides).unflatten(0, (v, -1)), 0

    return rule


def _weight_mapped(info: Any, dims: Dims, x: Tensor, g: Tensor) -> tuple[Tensor, int]:
    v = info.batch_size
    dw = weight_gradient(by_client(v, x, dims[0]), by_client(v, g, dims[1]))
    return dw.unflatten(0, (v, -1)), 0


registry.derivative(product, _keep, _product_back)
registry.derivative(input_gradient, _keep, _input_back)
registry.derivative(weight_gradient, _keep, _weight_back)
registry.mapped(product, _mapped(product))
registry.mapped(input_gradient, _mapped(input_gradient))
registry.mapped(weight_gradient, _weight_mapped)


def linear(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """``F.linear`` with ``x``'s precision and gradients of the weights' own."""
    rows = x.reshape(1, -1, x.shape[-1])
    y = product(rows, w.unsqueeze(0), w.detach().to(x.dtype).unsqueeze(0))
    y = y.reshape(*x.shape[:-1], len(w))
    return y if bias is None else y + bias.to(y.dtype)
