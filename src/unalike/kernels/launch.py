"""Launches the Triton kernels: lays tensors out, packs weights, cuts the work up.

All tensors are [clients, images, channels, height, width] in shape with their channels last in
memory; weights are [clients, outputs, inputs / groups, height, width].
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike.kernels import convolution_kernels, depthwise_kernels, plan
from unalike.kernels.geometry import Geometry, Pair, phases
from unalike.kernels.layout import channels_last, empty


def depthwise(x: Tensor, w: Tensor, groups: int) -> bool:
    """Whether every channel is convolved alone."""
    return groups > 1 and groups == x.shape[2] == w.shape[1]


def precision(x: Tensor) -> str:
    """What products of single-precision numbers are rounded to, as PyTorch is told."""
    exact = torch.backends.cudnn.conv.fp32_precision != "tf32"  # type: ignore[attr-defined]
    return "tf32x3" if exact and x.dtype == torch.float32 else "tf32"


def _packed(w: Tensor, groups: int, joined: int) -> Tensor:
    """Weights [n, groups, outputs, R, S, inputs], for ``joined`` neighbouring pixels at once.

    Pixel j of those sees its taps j columns further to the right, and zeros before and after.
    """
    apart = w.unflatten(1, (groups, -1)).permute(0, 1, 2, 4, 5, 3)
    if joined == 1:
        return apart.contiguous()
    each = [F.pad(apart, (0, 0, j, joined - 1 - j)) for j in range(joined)]
    return torch.cat(each, 2)


def _correlate(x: Tensor, w: Tensor, bias: Tensor | None, y: Tensor, geometry: Geometry) -> None:
    """``y``, which may be a part of a larger tensor, becomes the correlation of ``x`` and ``w``."""
    if depthwise(x, w, geometry.groups):
        _correlate_channels(x, w, bias, y, geometry)
        return
    n, images, _, high, wide = y.shape
    kernel = w.shape[3:]
    channels, outputs = w.shape[2], w.shape[1] // geometry.groups
    dense = y.stride(4) == y.shape[2]
    plain = geometry.groups == geometry.stride[1] == geometry.dilation[1] == 1 and dense
    joined = plan.doubled(outputs, wide, plain and kernel[1] > 1)
    pack = _packed(w, geometry.groups, joined)
    columns, taps_wide = joined * outputs, pack.shape[4]
    k = pack[0, 0, 0].numel()
    blocks = plan.correlation(channels, columns, x.element_size() == 2)
    wide //= joined
    rows = images * high * wide
    tiles_m, tiles_n = -(-rows // blocks.m), -(-columns // blocks.n)
    convolution_kernels.correlate[(tiles_m * tiles_n * n * geometry.groups,)](
        x, pack, bias, y,
        rows, high, wide, x.shape[3], x.shape[4],
        x.stride(0), x.stride(1), x.stride(3), x.stride(4), x.stride(2),
        y.stride(0), y.stride(1), y.stride(3), joined * y.stride(4),
        channels, k, columns, outputs, taps_wide, geometry.groups,
        geometry.stride[0], joined * geometry.stride[1], *geometry.padding, *geometry.dilation,
        tiles_m, tiles_n,
        FLAT=channels % blocks.k != 0, BIAS=bias is not None, PRECISION=precision(x),
        BM=blocks.m, BN=blocks.n, BK=blocks.k, num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip


def _correlate_channels(
    x: Tensor, w: Tensor, bias: Tensor | None, y: Tensor, geometry: Geometry
) -> None:
    """The same for one channel per group."""
    n, images, channels, high, wide = y.shape
    pack = w[:, :, 0].permute(0, 2, 3, 1).contiguous()
    rows = images * high * wide
    block = plan.power(channels, 16, 64)
    tiles_m, tiles_c = -(-rows // 64), -(-channels // block)
    depthwise_kernels.correlate[(tiles_m * tiles_c * n,)](
        x, pack, bias, y,
        rows, high, wide, x.shape[3], x.shape[4],
        x.stride(0), x.stride(1), x.stride(3), x.stride(4),
        y.stride(0), y.stride(1), y.stride(3), y.stride(4),
        channels, pack.shape[1] * pack.shape[2], pack.shape[2],
        *geometry.stride, *geometry.padding, *geometry.dilation,
        tiles_m, tiles_c,
        BIAS=bias is not None, BM=64, BC=block,
    )  # fmt: skip


def convolution(x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """Client i's images convolved with client i's weights."""
    size = geometry.size((x.shape[3], x.shape[4]), (w.shape[3], w.shape[4]))
    y = empty(x, len(w), x.shape[1], w.shape[1], *size)
    _correlate(channels_last(x), w, None if bias is None else bias.contiguous(), y, geometry)
    return y


def input_gradient(g: Tensor, w: Tensor, image: Pair, geometry: Geometry) -> Tensor:
    """The gradient with respect to the images: a correlation with swapped weights per phase."""
    g = channels_last(g)
    dx = empty(g, len(w), g.shape[1], w.shape[2] * geometry.groups, *image)
    swapped = w.unflatten(1, (geometry.groups, -1)).transpose(2, 3).flatten(1, 2)
    down, right = (
        phases(taps, stride, padding, dilation)
        for taps, stride, padding, dilation in zip(
            w.shape[3:], geometry.stride, geometry.padding, geometry.dilation, strict=True
        )
    )
    for i, one in enumerate(down):
        for j, two in enumerate(right):
            part = dx[..., i :: geometry.stride[0], j :: geometry.stride[1]]
            if not (one.taps and two.taps):
                part.zero_()
            elif part.numel():
                some = swapped[..., one.taps, :][..., two.taps]
                here = Geometry(
                    padding=(one.padding, two.padding),
                    dilation=(one.dilation, two.dilation),
                    groups=geometry.groups,
                )
                _correlate(g, some, None, part, here)
    return dx


def weight_gradient(
    x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
) -> tuple[Tensor, Tensor]:
    """The gradients with respect to weights and bias; that of the bias is empty if not asked for."""
    x, g = channels_last(x), channels_last(g)
    if geometry.groups > 1 and geometry.groups == x.shape[2] == g.shape[2]:
        dw, db = _channels_gradient(x, g, kernel, bias, geometry)
    else:
        dw, db = _weight_gradient(x, g, kernel, bias, geometry)
    return dw.to(x.dtype), db.to(x.dtype)


def _weight_gradient(
    x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
) -> tuple[Tensor, Tensor]:
    n, images, _, high, wide = g.shape
    groups = geometry.groups
    channels, outputs = x.shape[2] // groups, g.shape[2] // groups
    plain = groups == geometry.stride[1] == geometry.dilation[1] == 1 and kernel[1] > 1
    joined = plan.doubled(outputs, wide, plain)
    columns, taps_wide = joined * outputs, kernel[1] + joined - 1
    k = kernel[0] * taps_wide * channels
    blocks = plan.gradient(k, columns, x.element_size() == 2)
    tiles_k, tiles_n = -(-k // blocks.k), -(-columns // blocks.n)
    wide //= joined
    rows = images * high * wide
    programs = n * groups * tiles_k * tiles_n
    share = plan.parts(rows, blocks.m, programs)
    parts = -(-rows // share)
    dw = x.new_empty(parts, n, groups, k, columns, dtype=torch.float32)
    db = x.new_empty(parts, n, groups, columns if bias else 0, dtype=torch.float32)
    convolution_kernels.weight_gradient[(programs * parts,)](
        x, g, dw, db,
        rows, share, x.shape[3], x.shape[4],
        x.stride(0), x.stride(1), x.stride(3), x.stride(4), x.stride(2),
        g.stride(0), g.stride(1), g.stride(3), joined * g.stride(4),
        channels, k, columns, taps_wide, n, groups,
        geometry.stride[0], joined * geometry.stride[1], *geometry.padding, *geometry.dilation,
        tiles_k, tiles_n,
        HIGH=high, WIDE=wide, PADDED=geometry.padding != (0, 0), BIAS=bias,
        PRECISION=precision(x),
        BM=blocks.m, BN=blocks.n, BK=blocks.k, num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip
    dw, db = (t.sum(0) if parts > 1 else t[0] for t in (dw, db))
    shape = (n, groups, kernel[0], taps_wide, channels, joined, outputs)
    each = [
        dw.reshape(shape)[:, :, :, j : j + kernel[1], :, j] for j in range(joined)
    ]  # a neighbour's taps lie one column further
    dw = each[0] if joined == 1 else each[0] + each[1]
    db = db.reshape(n, groups, joined, -1).sum(2)
    return dw.permute(0, 1, 5, 4, 2, 3).flatten(1, 2).contiguous(), db.flatten(1)


def _channels_gradient(
    x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
) -> tuple[Tensor, Tensor]:
    n, images, channels, high, wide = g.shape
    taps = kernel[0] * kernel[1]
    rows = images * high * wide
    block = plan.power(channels, 16, 64)
    tiles_c = -(-channels // block)
    programs = n * taps * tiles_c
    share = plan.parts(rows, 64, programs)
    parts = -(-rows // share)
    dw = x.new_empty(parts, n, taps, channels, dtype=torch.float32)
    db = x.new_empty(parts, n, channels if bias else 0, dtype=torch.float32)
    depthwise_kernels.weight_gradient[(programs * parts,)](
        x, g, dw, db,
        rows, share, high, wide, x.shape[3], x.shape[4],
        x.stride(0), x.stride(1), x.stride(3), x.stride(4),
        g.stride(0), g.stride(1), g.stride(3), g.stride(4),
        channels, taps, kernel[1], n,
        *geometry.stride, *geometry.padding, *geometry.dilation,
        tiles_c,
        BIAS=bias, BM=64, BC=block,
    )  # fmt: skip
    dw = dw.sum(0).transpose(1, 2).contiguous()
    return dw.reshape(n, channels, 1, *kernel), db.sum(0)
