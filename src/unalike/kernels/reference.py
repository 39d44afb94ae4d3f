"""PyTorch's own convolutions for many weight sets: one grouped convolution, a group per client."""

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike.kernels.geometry import Geometry, Pair


def _wide(x: Tensor) -> Tensor:
    """[n, B, C, ...] as [B, n C, ...]: the clients' channels side by side."""
    return x.transpose(0, 1).flatten(1, 2)


def _apart(x: Tensor, n: int) -> Tensor:
    """The inverse of ``_wide``."""
    return x.unflatten(1, (n, -1)).transpose(0, 1)


def convolution(x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """Client i's images [B, C, H, W] convolved with client i's weights [K, C / groups, R, S]."""
    n = len(w)
    y = F.conv2d(
        _wide(x),
        w.flatten(0, 1).to(x.dtype),
        None if bias is None else bias.flatten().to(x.dtype),
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        n * geometry.groups,
    )
    return _apart(y, n)


def _backward(
    g: Tensor, x: Tensor, w: Tensor, geometry: Geometry, mask: tuple[bool, bool, bool]
) -> tuple[Tensor, Tensor, Tensor]:
    n = len(w)
    return torch.ops.aten.convolution_backward(
        _wide(g),
        _wide(x),
        w.flatten(0, 1).to(g.dtype),
        [n * w.shape[1]],
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        False,
        [0, 0],
        n * geometry.groups,
        mask,
    )


def input_gradient(g: Tensor, w: Tensor, image: Pair, geometry: Geometry) -> Tensor:
    """The gradient with respect to the images, which are ``image`` pixels large."""
    channels = w.shape[2] * geometry.groups
    x = g.new_empty(1).expand(*g.shape[:2], channels, *image)  # only its shape matters
    return _apart(_backward(g, x, w, geometry, (True, False, False))[0], len(w))


def weight_gradient(
    x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
) -> tuple[Tensor, Tensor]:
    """The gradients with respect to weights and bias; the latter is empty if not asked for."""
    shape = (len(x), g.shape[2], x.shape[2] // geometry.groups, *kernel)
    w = x.new_empty(1).expand(shape)
    _, dw, _ = _backward(g, x, w, geometry, (False, True, False))
    return dw.unflatten(0, shape[:2]), g.sum((1, 3, 4)) if bias else g.new_empty(0)
