"""The operators as PyTorch sees them: one node each for anything that traces, records or compiles.

Images are [clients, images, channels, height, width] and come back with their channels last in
memory. Weights may have more bits than images, and their gradients have 32 at least. One client
alone is computed by PyTorch, and so are numbers of 64 bits.
"""

from collections.abc import Sequence

from torch import Tensor

from unalike.kernels import reference
from unalike.kernels.available import available, small
from unalike.kernels.geometry import Geometry
from unalike.kernels.layout import channels_last, empty, wide
from unalike.kernels.registry import fake, operator, pair

_WHERE = "int[] stride, int[] padding, int[] dilation, int groups"


def _geometry(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Geometry:
    return Geometry(pair(stride), pair(padding), pair(dilation), groups)


def _batched(*tensors: Tensor) -> bool:
    """Whether our own kernels are to compute this."""
    many = max(len(t) for t in tensors) > 1
    return many and all(available(t) and small(t[0].numel()) for t in tensors)


@operator("convolution", f"(Tensor x, Tensor w, Tensor? bias, {_WHERE}) -> Tensor")
def convolution(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Client i's images convolved with client i's weights [outputs, inputs / groups, R, S]."""
    geometry = _geometry(stride, padding, dilation, groups)
    if _batched(x, w):
        from unalike.kernels import launch

        return launch.convolution(x, w, bias, geometry)
    return channels_last(reference.convolution(x, w, bias, geometry))


@fake("convolution")
def _(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    geometry = _geometry(stride, padding, dilation, groups)
    size = geometry.size((x.shape[3], x.shape[4]), (w.shape[3], w.shape[4]))
    return empty(x, len(w), x.shape[1], w.shape[1], *size)


@operator("convolution_input_gradient", f"(Tensor g, Tensor w, int[] image, {_WHERE}) -> Tensor")
def input_gradient(
    g: Tensor,
    w: Tensor,
    image: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The gradient with respect to images of a given height and width."""
    geometry, size = _geometry(stride, padding, dilation, groups), pair(image)
    if _batched(g, w):
        from unalike.kernels import launch

        return launch.input_gradient(g, w, size, geometry)
    return channels_last(reference.input_gradient(g, w, size, geometry))


@fake("convolution_input_gradient")
def _(
    g: Tensor,
    w: Tensor,
    image: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    return empty(g, len(w), g.shape[1], w.shape[2] * groups, image[0], image[1])


@operator(
    "convolution_weight_gradient",
    f"(Tensor x, Tensor g, int[] kernel, bool bias, {_WHERE}) -> (Tensor, Tensor)",
)
def weight_gradient(
    x: Tensor,
    g: Tensor,
    kernel: Sequence[int],
    bias: bool,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> tuple[Tensor, Tensor]:
    """The gradients with respect to weights and bias; the latter is empty if not asked for."""
    geometry, taps = _geometry(stride, padding, dilation, groups), pair(kernel)
    if _batched(x, g):
        from unalike.kernels import launch

        return launch.weight_gradient(x, g, taps, bias, geometry)
    dw, db = reference.weight_gradient(x, g, taps, bias, geometry)
    return dw.contiguous().to(wide(x.dtype)), db.to(wide(x.dtype))


@fake("convolution_weight_gradient")
def _(
    x: Tensor,
    g: Tensor,
    kernel: Sequence[int],
    bias: bool,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> tuple[Tensor, Tensor]:
    n, outputs, dtype = g.shape[0], g.shape[2], wide(x.dtype)
    dw = x.new_empty(n, outputs, x.shape[2] // groups, kernel[0], kernel[1], dtype=dtype)
    return dw, x.new_empty((n, outputs) if bias else (0,), dtype=dtype)
