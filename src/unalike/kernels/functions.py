"""Convolution as a function with derivatives of any order and a vmap rule.

    L(x, w, g) = <g, x * w>    is linear in each of images, weights and output gradient,

so its three partial derivatives, convolution, input gradient and weight gradient, are each other's
derivatives. The bias is a weight on a constant input.
"""

from typing import Any

import torch
from torch import Tensor

from unalike.kernels import operators
from unalike.kernels.geometry import Geometry, Pair

Dims = tuple[int | None, ...]
Where = tuple[Pair, Pair, Pair, int]


def _where(geometry: Geometry) -> Where:
    return geometry.stride, geometry.padding, geometry.dilation, geometry.groups


def by_client(v: int, x: Tensor, dim: int | None) -> Tensor:
    """[n, ...] mapped along ``dim`` as [v n, ...]; all share what is not mapped."""
    x = x.unsqueeze(0).expand(v, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.flatten(0, 1)


def by_image(x: Tensor, dim: int) -> Tensor:
    """[n, B, ...] mapped along ``dim`` as [n, v B, ...]."""
    return x.movedim(dim, 1).flatten(1, 2)


class Convolution(torch.autograd.Function):
    """(images [n, B, C, H, W], weights, bias or None, geometry) -> images."""

    @staticmethod
    def forward(x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:  # noqa: D102
        return operators.convolution(x, w, bias, *_where(geometry))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: D102
        x, w, bias, ctx.geometry = inputs
        ctx.bias = bias is not None
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        x, w = ctx.saved_tensors
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = InputGradient.apply(g, w, tuple(x.shape[3:]), ctx.geometry)
        if any(ctx.needs_input_grad[1:3]):
            dw, db = WeightGradient.apply(x, g, tuple(w.shape[3:]), ctx.bias, ctx.geometry)
        return dx, dw, db if ctx.bias else None, None

    @staticmethod
    def vmap(  # noqa: D102
        info: Any, dims: Dims, x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry
    ) -> tuple[Tensor, int]:
        v = info.batch_size
        if dims[1] is None and dims[2] is None and dims[0] is not None:
            y = Convolution.apply(by_image(x, dims[0]), w, bias, geometry)
            return y.unflatten(1, (v, -1)), 1
        x, w = by_client(v, x, dims[0]), by_client(v, w, dims[1])
        if bias is not None:
            bias = by_client(v, bias, dims[2])
        return Convolution.apply(x, w, bias, geometry).unflatten(0, (v, -1)), 0


class InputGradient(torch.autograd.Function):
    """(output gradient, weights, (H, W) of the images, geometry) -> gradient of the images."""

    @staticmethod
    def forward(g: Tensor, w: Tensor, image: Pair, geometry: Geometry) -> Tensor:  # noqa: D102
        return operators.input_gradient(g, w, image, *_where(geometry))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: D102
        g, w, _, ctx.geometry = inputs
        ctx.save_for_backward(g, w)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        g, w = ctx.saved_tensors
        dg = dw = None
        if ctx.needs_input_grad[0]:
            dg = Convolution.apply(v, w, None, ctx.geometry)
        if ctx.needs_input_grad[1]:
            dw, _ = WeightGradient.apply(v, g, tuple(w.shape[3:]), False, ctx.geometry)
        return dg, dw, None, None

    @staticmethod
    def vmap(  # noqa: D102
        info: Any, dims: Dims, g: Tensor, w: Tensor, image: Pair, geometry: Geometry
    ) -> tuple[Tensor, int]:
        v = info.batch_size
        if dims[1] is None and dims[0] is not None:
            dx = InputGradient.apply(by_image(g, dims[0]), w, image, geometry)
            return dx.unflatten(1, (v, -1)), 1
        g, w = by_client(v, g, dims[0]), by_client(v, w, dims[1])
        return InputGradient.apply(g, w, image, geometry).unflatten(0, (v, -1)), 0


class WeightGradient(torch.autograd.Function):
    """(images, output gradient, (R, S), with bias?, geometry) -> gradients of weights and bias."""

    @staticmethod
    def forward(  # noqa: D102
        x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
    ) -> tuple[Tensor, Tensor]:
        return operators.weight_gradient(x, g, kernel, bias, *_where(geometry))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: D102
        x, g, _, ctx.bias, ctx.geometry = inputs
        ctx.save_for_backward(x, g)

    @staticmethod
    def backward(ctx: Any, v: Tensor, u: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        x, g = ctx.saved_tensors
        dx = dg = None
        if ctx.needs_input_grad[0]:
            dx = InputGradient.apply(g, v, tuple(x.shape[3:]), ctx.geometry)
        if ctx.needs_input_grad[1]:
            dg = Convolution.apply(x, v, u if ctx.bias else None, ctx.geometry)
        return dx, dg, None, None, None

    @staticmethod
    def vmap(  # noqa: D102
        info: Any, dims: Dims, x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        v = info.batch_size
        x, g = by_client(v, x, dims[0]), by_client(v, g, dims[1])
        dw, db = WeightGradient.apply(x, g, kernel, bias, geometry)
        db = db.unflatten(0, (v, -1)) if bias else db.expand(v, 0)
        return (dw.unflatten(0, (v, -1)), db), (0, 0)


def convolution(x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """``F.conv2d`` for images [B, C, H, W], with one weight set per client inside vmap."""
    bias = None if bias is None else bias.unsqueeze(0)
    return Convolution.apply(x.unsqueeze(0), w.unsqueeze(0), bias, geometry).squeeze(0)
