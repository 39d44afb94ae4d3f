"""Launches the kernels for convolutions of every channel alone."""

import torch
from torch import Tensor

from unalike.kernels import plan
from unalike.kernels.device import depthwise as kernels
from unalike.kernels.geometry import Geometry, Pair

ROWS = 64  # pixels that a program takes together


def fits(inputs: int, outputs: int, geometry: Geometry) -> bool:
    """Whether every channel is convolved alone."""
    return 1 < geometry.groups == inputs == outputs


def correlate(x: Tensor, w: Tensor, bias: Tensor | None, y: Tensor, geometry: Geometry) -> None:
    """``y``, which may be every other pixel of something, becomes the correlation of ``x``."""
    n, images, channels, high, wide = y.shape
    pack = w[:, :, 0].permute(0, 2, 3, 1).contiguous()
    rows = images * high * wide
    block = plan.power(channels, 16, 64)
    tiles_m, tiles_c = -(-rows // ROWS), -(-channels // block)
    kernels.correlate[(tiles_m * tiles_c * n,)](
        x, pack, bias, y,
        rows, x.shape[3], x.shape[4],
        x.stride(0), x.stride(1), x.stride(3), x.stride(4),
        y.stride(0), y.stride(1), y.stride(3), y.stride(4),
        channels,
        *geometry.stride, *geometry.padding, *geometry.dilation,
        tiles_m, tiles_c,
        HIGH=high, WIDE=wide, TAPS=pack.shape[1] * pack.shape[2], TAPS_WIDE=pack.shape[2],
        BIAS=bias is not None, BM=ROWS, BC=block,
    )  # fmt: skip


def weight_gradient(
    x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
) -> tuple[Tensor, Tensor]:
    """The gradients with respect to weights and bias; the latter is empty if not asked for."""
    n, images, channels, high, wide = g.shape
    taps = kernel[0] * kernel[1]
    rows = images * high * wide
    block = plan.power(channels, 16, 64)
    tiles_c = -(-channels // block)
    programs = n * tiles_c
    share = plan.share(rows, ROWS, programs)
    parts = -(-rows // share)
    dw = x.new_empty(parts, n, taps, channels, dtype=torch.float32)
    db = x.new_empty(parts, n, channels if bias else 0, dtype=torch.float32)
    kernels.weight_gradient[(programs * parts,)](
        x, g, dw, db,
        rows, share, x.shape[3], x.shape[4],
        x.stride(0), x.stride(1), x.stride(3), x.stride(4),
        g.stride(0),
        channels, n,
        *geometry.stride, *geometry.padding, *geometry.dilation,
        tiles_c,
        HIGH=high, WIDE=wide, TAPS=taps, TAPS_WIDE=kernel[1],
        BIAS=bias, BT=plan.power(taps, 1, taps * 2), BM=ROWS, BC=block,
    )  # fmt: skip
    dw = dw.sum(0).transpose(1, 2).reshape(n, channels, 1, *kernel)
    return dw, db.sum(0) if bias else db.flatten()
