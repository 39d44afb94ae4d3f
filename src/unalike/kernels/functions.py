"""Convolution as a function with derivatives of any order and a vmap rule.

    L(x, w, g) = <g, x * w>    is linear in each of images, weights and output gradient,

so its three partial derivatives, convolution, input gradient and weight gradient, are each other's
derivatives. The bias is a weight on a constant input.
"""

from typing import Any

from torch import Tensor

from unalike.kernels import registry
from unalike.kernels.geometry import Geometry
from unalike.kernels.operators import convolution as forward
from unalike.kernels.operators import input_gradient, weight_gradient

Dims = tuple[int | None, ...]
Gradients = tuple[Tensor | None, ...]
REST = (None,) * 4  # stride, padding, dilation and groups have no derivatives


def by_client(v: int, x: Tensor, dim: int | None) -> Tensor:
    """[n, ...] mapped along ``dim`` as [v n, ...]; all share what is not mapped."""
    x = x.unsqueeze(0).expand(v, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.flatten(0, 1)


def by_image(x: Tensor, dim: int) -> Tensor:
    """[n, B, ...] mapped along ``dim`` as [n, v B, ...]."""
    return x.movedim(dim, 1).flatten(1, 2)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """The two operands, and where taps lie."""
    ctx.save_for_backward(*inputs[:2])
    ctx.where = inputs[-4:]


def _keep_bias(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _keep(ctx, inputs, output)
    ctx.bias = inputs[2] is not None


def _forward_back(ctx: Any, g: Tensor) -> Gradients:
    x, w = ctx.saved_tensors
    dx = dw = db = None
    needs = ctx.needs_input_grad[1:]
    if needs[0]:
        dx = input_gradient(g, w, x.shape[3:], *ctx.where)
    if needs[1] or needs[2]:
        dw, db = weight_gradient(x, g, w.shape[3:], ctx.bias, *ctx.where)
    return dx, dw, db if ctx.bias else None, *REST


def _forward_mapped(
    info: Any, dims: Dims, x: Tensor, w: Tensor, bias: Tensor | None, *where: Any
) -> tuple[Tensor, int]:
    v = info.batch_size
    if dims[1] is None and dims[2] is None and dims[0] is not None:
        return forward(by_image(x, dims[0]), w, bias, *where).unflatten(1, (v, -1)), 1
    x, w = by_client(v, x, dims[0]), by_client(v, w, dims[1])
    bias = None if bias is None else by_client(v, bias, dims[2])
    return forward(x, w, bias, *where).unflatten(0, (v, -1)), 0


def _input_back(ctx: Any, v: Tensor) -> Gradients:
    g, w = ctx.saved_tensors
    dg = dw = None
    needs = ctx.needs_input_grad[1:]
    if needs[0]:
        dg = forward(v, w, None, *ctx.where)
    if needs[1]:
        dw, _ = weight_gradient(v, g, w.shape[3:], False, *ctx.where)
    return dg, dw, None, *REST


def _input_mapped(
    info: Any, dims: Dims, g: Tensor, w: Tensor, image: Any, *where: Any
) -> tuple[Tensor, int]:
    v = info.batch_size
    if dims[1] is None and dims[0] is not None:
        dx = input_gradient(by_image(g, dims[0]), w, image, *where)
        return dx.unflatten(1, (v, -1)), 1
    g, w = by_client(v, g, dims[0]), by_client(v, w, dims[1])
    return input_gradient(g, w, image, *where).unflatten(0, (v, -1)), 0


def _weight_back(ctx: Any, v: Tensor, u: Tensor) -> Gradients:
    x, g = ctx.saved_tensors
    dx = dg = None
    needs = ctx.needs_input_grad[1:]
    if needs[0]:
        dx = input_gradient(g, v, x.shape[3:], *ctx.where)
    if needs[1]:
        dg = forward(x, v, u if u.numel() else None, *ctx.where)
    return dx, dg, None, None, *REST


def _weight_mapped(
    info: Any, dims: Dims, x: Tensor, g: Tensor, kernel: Any, bias: bool, *where: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    v = info.batch_size
    x, g = by_client(v, x, dims[0]), by_client(v, g, dims[1])
    dw, db = weight_gradient(x, g, kernel, bias, *where)
    db = db.unflatten(0, (v, -1)) if bias else db.new_empty(v, 0)
    return (dw.unflatten(0, (v, -1)), db), (0, 0)


registry.derivative(forward, _keep_bias, _forward_back)
registry.derivative(input_gradient, _keep, _input_back)
registry.derivative(weight_gradient, _keep, _weight_back)
registry.mapped(forward, _forward_mapped)
registry.mapped(input_gradient, _input_mapped)
registry.mapped(weight_gradient, _weight_mapped)


def convolution(x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """``F.conv2d`` for images [B, C, H, W], with one weight set per client inside vmap."""
    bias = None if bias is None else bias.unsqueeze(0)
    where = (geometry.stride, geometry.padding, geometry.dilation, geometry.groups)
    return forward(x.unsqueeze(0), w.unsqueeze(0), bias, *where).squeeze(0)
