"""Max-pooling, with the ReLU before it if there is one, as a function with a vmap rule.

The largest of rectified values is the rectified largest value, so the ReLU need only look at what
is left. Images are [B, C, H, W]; pooling has no weights, so clients are more images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike.kernels import plan
from unalike.kernels.available import available, small
from unalike.kernels.geometry import Geometry, Pair
from unalike.kernels.registry import derivative, fake, mapped, operator, pair

NOWHERE = 255  # the ReLU is off: nothing of the gradient goes back


@dataclass(frozen=True)
class Window:
    """What is pooled, and how."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    relu: bool = False
    flat: bool = False  # the result is to be flattened next, so its channels come first in memory

    @property
    def constants(self) -> dict[str, int]:
        """For the kernels."""
        names = ("STRIDE", "PAD", "DILATION")
        pairs = zip(names, (self.stride, self.padding, self.dilation), strict=True)
        both = {f"{name}_{axis}": pair[i] for name, pair in pairs for i, axis in enumerate("HW")}
        return {"R": self.kernel[0], "S": self.kernel[1], **both}

    @property
    def geometry(self) -> Geometry:
        """Where windows lie."""
        return Geometry(self.stride, self.padding, self.dilation)

    @property
    def disjoint(self) -> bool:
        """Whether every pixel lies in one window at most."""
        return self.kernel == self.stride and self.dilation == (1, 1)


def _window(
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    relu: bool = False,
    flat: bool = False,
) -> Window:
    return Window(pair(kernel), pair(stride), pair(padding), pair(dilation), relu, flat)


def _place(found: Tensor, image: Pair, window: Window) -> Tensor:
    """The pixel h W + w of the image that byte ``found`` of every output pixel means."""
    tap = torch.where(found == NOWHERE, 0, found).long()
    (high, wide), (_, taps_wide) = found.shape[-2:], window.kernel
    row = torch.arange(high, device=found.device)[:, None] * window.stride[0]
    column = torch.arange(wide, device=found.device) * window.stride[1]
    row = row - window.padding[0] + tap // taps_wide * window.dilation[0]
    column = column - window.padding[1] + tap % taps_wide * window.dilation[1]
    # Nothing is read from where a ReLU is off, but the place must exist.
    return (row * image[1] + column).clamp(0, image[0] * image[1] - 1)


def _taken(v: Tensor, found: Tensor, image: Pair, window: Window) -> Tensor:
    """The values of ``v`` at the pixels that were found."""
    there = v.flatten(-2).gather(-1, _place(found, image, window).flatten(-2))
    return there.view(found.shape) * (found != NOWHERE)


@operator(
    "max_pool",
    "(Tensor x, int[] kernel, int[] stride, int[] padding, int[] dilation, bool relu,"
    " bool flat) -> (Tensor, Tensor)",
)
def max_pool(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    relu: bool,
    flat: bool,
) -> tuple[Tensor, Tensor]:
    """(largest values, the byte that says where in its window each was found)."""
    window = _window(kernel, stride, padding, dilation, relu, flat)
    image = (x.shape[2], x.shape[3])
    size = window.geometry.size(image, window.kernel)
    if available(x) and small(x[:, 0].numel(), x[0].numel()):
        return _largest(x, size, window)
    y, place = F.max_pool2d(
        x, window.kernel, window.stride, window.padding, window.dilation, return_indices=True
    )
    row = torch.arange(size[0], device=x.device)[:, None] * stride[0] - padding[0]
    column = torch.arange(size[1], device=x.device) * stride[1] - padding[1]
    down = (place // image[1] - row) // dilation[0]
    right = (place % image[1] - column) // dilation[1]
    found = (down * kernel[1] + right).to(torch.uint8)
    if relu:
        y, found = y.relu(), torch.where(y <= 0, NOWHERE, found)
    return y.contiguous() if flat else _last(y), _last(found)


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    b, c, h, w = shape
    return like.new_empty(b, h, w, c, dtype=dtype or like.dtype).permute(0, 3, 1, 2)


def _pooled(like: Tensor, shape: tuple[int, ...], flat: bool) -> Tensor:
    return like.new_empty(shape) if flat else _empty(like, *shape)


def _largest(x: Tensor, size: Pair, window: Window) -> tuple[Tensor, Tensor]:
    from unalike.kernels.device import pooling as kernels

    x = _last(x)
    b, c, h, w = x.shape
    y, found = _pooled(x, (b, c, *size), window.flat), _empty(x, b, c, *size, dtype=torch.uint8)
    pixels, block = b * size[0] * size[1], plan.power(c, 1, 64)
    tiles, tall = -(-c // block), plan.pooled(block)
    kernels.largest[(-(-pixels // tall) * tiles,)](
        x, y, found,
        pixels, c, tiles, *y.stride(),
        RELU=window.relu, H=h, W=w, HIGH=size[0], WIDE=size[1], **window.constants,
        BM=tall, BC=block,
    )  # fmt: skip
    return y, found


@fake("max_pool")
def _(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    relu: bool,
    flat: bool,
) -> tuple[Tensor, Tensor]:
    window = _window(kernel, stride, padding, dilation, relu, flat)
    shape = (*x.shape[:2], *window.geometry.size((x.shape[2], x.shape[3]), window.kernel))
    return _pooled(x, shape, flat), _empty(x, *shape, dtype=torch.uint8)


@operator(
    "max_pool_gradient",
    "(Tensor g, Tensor found, int[] image, int[] kernel, int[] stride, int[] padding,"
    " int[] dilation) -> Tensor",
)
def max_pool_gradient(
    g: Tensor,
    found: Tensor,
    image: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """The gradient with respect to the images; where windows overlap, they add up."""
    window = _window(kernel, stride, padding, dilation)
    h, w = image
    if available(g) and small(len(g) * h * w, g[0].numel()):
        return _spread(g, found, (h, w), window)
    dx = g.new_zeros(*g.shape[:2], h * w)
    place = _place(found, (h, w), window).flatten(-2)
    dx.scatter_add_(-1, place, (g * (found != NOWHERE)).flatten(-2))
    return _last(dx.unflatten(-1, (h, w)))


def _spread(g: Tensor, found: Tensor, image: Pair, window: Window) -> Tensor:
    from unalike.kernels.device import pooling as kernels

    found = _last(found)
    b, c, high, wide = g.shape
    dx = _empty(g, b, c, *image)
    pixels, block = b * image[0] * image[1], plan.power(c, 1, 64)
    tiles, tall = -(-c // block), plan.pooled(block)
    kernels.spread[(-(-pixels // tall) * tiles,)](
        g, found, dx,
        pixels, c, tiles, *g.stride(),
        DISJOINT=window.disjoint, H=image[0], W=image[1], HIGH=high, WIDE=wide,
        **window.constants, BM=tall, BC=block,
    )  # fmt: skip
    return dx


@fake("max_pool_gradient")
def _(
    g: Tensor,
    found: Tensor,
    image: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    return _empty(g, *g.shape[:2], image[0], image[1])


def _folded(x: Tensor, dim: int | None, v: int) -> Tensor:
    """[B, ...] mapped along ``dim`` as [v B, ...]."""
    return (x.expand(v, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)


def _keep_found(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.image, ctx.where = inputs[0].shape[2:], inputs[1:5]


def _pool_back(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    dx = max_pool_gradient(g, ctx.saved_tensors[0], ctx.image, *ctx.where)
    return dx, *[None] * 6


def _pool_mapped(
    info: Any, dims: tuple[int | None, ...], x: Tensor, *where: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    v = info.batch_size
    y, found = max_pool(_folded(x, dims[0], v), *where)
    return (y.unflatten(0, (v, -1)), found.unflatten(0, (v, -1))), (0, 0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.image, ctx.window = pair(inputs[2]), _window(*inputs[3:])


def _gradient_back(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
    return _taken(v, ctx.saved_tensors[0], ctx.image, ctx.window), *[None] * 6


def _gradient_mapped(
    info: Any, dims: tuple[int | None, ...], g: Tensor, found: Tensor, *where: Any
) -> tuple[Tensor, int]:
    v = info.batch_size
    dx = max_pool_gradient(_folded(g, dims[0], v), _folded(found, dims[1], v), *where)
    return dx.unflatten(0, (v, -1)), 0


derivative(max_pool, _keep_found, _pool_back)
derivative(max_pool_gradient, _keep, _gradient_back)
mapped(max_pool, _pool_mapped)
mapped(max_pool_gradient, _gradient_mapped)


def pooled(x: Tensor, window: Window) -> Tensor:
    """``F.max_pool2d`` of images [B, C, H, W], after ``F.relu`` if the window says so."""
    w = window
    return max_pool(x, w.kernel, w.stride, w.padding, w.dilation, w.relu, w.flat)[0]
