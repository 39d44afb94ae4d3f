"""Products with weights that have more bits than what they are multiplied with.

Autocast rounds weights to 16 bits and widens their rounded gradient again, which is one pass over
all weights too many: the product that makes the gradient can write 32 bits itself. With a linear
layer as with a convolution the three derivatives of <g, x w'> are each other's derivatives; the
weights' ``short`` copy stands in for them, and no derivative is taken with respect to it.
"""

from typing import Any

import torch
from torch import Tensor

from unalike.kernels.functions import Dims, by_client, by_image


def _wide(a: Tensor, b: Tensor) -> Tensor:
    """The product a b, with at least 32 bits."""
    if a.is_cuda and a.element_size() == 2:
        return torch.bmm(a, b, out_dtype=torch.float32)
    dtype = torch.promote_types(a.dtype, torch.float32)
    return torch.bmm(a.to(dtype), b.to(dtype))


class Product(torch.autograd.Function):
    """(inputs [n, B, I], weights [n, O, I], their short copy) -> outputs [n, B, O]."""

    @staticmethod
    def forward(x: Tensor, w: Tensor, short: Tensor) -> Tensor:  # noqa: D102
        return torch.bmm(x, short.transpose(1, 2))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: D102
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        x, w, short = ctx.saved_tensors
        dx = InputGradient.apply(g, w, short) if ctx.needs_input_grad[0] else None
        dw = WeightGradient.apply(x, g) if ctx.needs_input_grad[1] else None
        return dx, dw, None

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, w: Tensor, short: Tensor) -> tuple[Tensor, int]:  # noqa: D102
        return _mapped(Product, info.batch_size, dims, x, w, short)


class InputGradient(torch.autograd.Function):
    """(output gradient [n, B, O], weights, their short copy) -> gradient of the inputs."""

    @staticmethod
    def forward(g: Tensor, w: Tensor, short: Tensor) -> Tensor:  # noqa: D102
        return torch.bmm(g, short)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: D102
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        g, w, short = ctx.saved_tensors
        return Product.apply(v, w, short), WeightGradient.apply(v, g), None

    @staticmethod
    def vmap(info: Any, dims: Dims, g: Tensor, w: Tensor, short: Tensor) -> tuple[Tensor, int]:  # noqa: D102
        return _mapped(InputGradient, info.batch_size, dims, g, w, short)


class WeightGradient(torch.autograd.Function):
    """(inputs, output gradient) -> gradient of the weights."""

    @staticmethod
    def forward(x: Tensor, g: Tensor) -> Tensor:  # noqa: D102
        return _wide(g.transpose(1, 2), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: D102
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        x, g = ctx.saved_tensors
        short = v.detach().to(x.dtype)
        return InputGradient.apply(g, v, short), Product.apply(x, v, short)

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, g: Tensor) -> tuple[Tensor, int]:  # noqa: D102
        v = info.batch_size
        dw = WeightGradient.apply(by_client(v, x, dims[0]), by_client(v, g, dims[1]))
        return dw.unflatten(0, (v, -1)), 0


def _mapped(
    function: Any, v: int, dims: Dims, x: Tensor, w: Tensor, short: Tensor
) -> tuple[Tensor, int]:
    if dims[0] is not None and dims[1] is None and dims[2] is None:
        return function.apply(by_image(x, dims[0]), w, short).unflatten(1, (v, -1)), 1
    sides = (by_client(v, t, dim) for t, dim in zip((x, w, short), dims, strict=True))
    return function.apply(*sides).unflatten(0, (v, -1)), 0


def linear(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """``F.linear`` with ``x``'s precision and gradients of the weights' own."""
    rows = x.reshape(1, -1, x.shape[-1])
    y = Product.apply(rows, w.unsqueeze(0), w.detach().to(x.dtype).unsqueeze(0))
    y = y.reshape(*x.shape[:-1], len(w))
    return y if bias is None else y + bias.to(y.dtype)
