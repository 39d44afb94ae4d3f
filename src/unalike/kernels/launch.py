"""Launches the kernels of convolutions: packs weights, cuts the work up.

Images are [clients, images, channels, height, width] with their channels last in memory, weights
[clients, outputs, inputs / groups, height, width].
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from unalike.kernels import depthwise, plan
from unalike.kernels.device import convolution as kernels
from unalike.kernels.device import packing
from unalike.kernels.geometry import Geometry, Pair, phases
from unalike.kernels.layout import channels_last, empty, padded

PACK = 1024  # numbers that one program packs
FEW = 8  # channels


def kind(x: Tensor) -> plan.Kind:
    """How numbers are multiplied: single precision as PyTorch is told to for convolutions.

    Three products of rounded parts make up for the rounding, to about the last bit.
    """
    if x.element_size() == 2:
        return "narrow"
    told = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    return "rounded" if told == "tf32" else "exact"


PRECISION = {"narrow": "tf32", "rounded": "tf32", "exact": "tf32x3"}


class Taps(NamedTuple):
    """Weights as a correlation reads them: sizes, and steps through memory."""

    w: Tensor  # begins at the first tap
    outputs: int
    inputs: int
    kernel: Pair
    group: int
    output: int
    input: int
    row: int
    column: int

    def packed(self, groups: int, joined: int, dtype: torch.dtype) -> Tensor:
        """[n, groups, joined x outputs, R, S + joined - 1, inputs]."""
        high, wide = self.kernel
        n, columns = len(self.w), joined * self.outputs
        shape = (n, groups, columns, high, wide + joined - 1, self.inputs)
        out = self.w.new_empty(shape, dtype=dtype)
        size = out[0].numel()
        packing.pack[(n * -(-size // PACK),)](
            self.w, out, size, self.w.stride(0), *self[4:],
            JOINED=joined, OUTPUTS=self.outputs, R=high, S=wide, INPUTS=self.inputs,
            ROUND=kind(out) == "rounded" and self.w.dtype == torch.float32, BLOCK=PACK,
        )  # fmt: skip
        return out


def _correlate(x: Tensor, taps: Taps, bias: Tensor | None, y: Tensor, geometry: Geometry) -> None:
    """``y``, which may be every other pixel of something, becomes the correlation of ``x``."""
    n, images, _, high, wide = y.shape
    groups, image = geometry.groups, (x.shape[3], x.shape[4])
    border = geometry.overhangs(image, taps.kernel, (high, wide))
    plain = groups == geometry.stride[1] == geometry.dilation[1] == 1 and taps.kernel[1] > 1
    plain = plain and y.stride(4) == y.shape[2] and taps.inputs >= 16
    joined = plan.joined(taps.outputs, 32 if kind(x) == "exact" else 64, wide, plain)
    pack = taps.packed(groups, joined, x.dtype)
    columns, k = pack.shape[2], pack[0, 0, 0].numel()
    blocks = plan.correlation(taps.inputs, columns, kind(x))
    wide //= joined
    rows = images * high * wide
    tiles_m, tiles_n = -(-rows // blocks.m), -(-columns // blocks.n)
    kernels.correlate[(tiles_m * tiles_n * n * groups,)](
        x, pack, bias, y,
        rows, *image,
        x.stride(0), x.stride(1), x.stride(3), x.stride(4), x.stride(2),
        y.stride(0), y.stride(1), y.stride(3), joined * y.stride(4),
        k, columns, taps.outputs, groups,
        geometry.stride[0], joined * geometry.stride[1], *geometry.padding, *geometry.dilation,
        tiles_m, tiles_n,
        HIGH=high, WIDE=wide, C=taps.inputs, TAPS_WIDE=pack.shape[4],
        FLAT=taps.inputs % blocks.k != 0, BORDER=border, EVEN=columns % blocks.n == 0,
        BIAS=bias is not None, PRECISION=PRECISION[kind(x)],
        BM=blocks.m, BN=blocks.n, BK=blocks.k, num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip


def _bordered(x: Tensor, geometry: Geometry) -> tuple[Tensor, Geometry]:
    """Images of few channels with their border written out: checking every tap would cost more."""
    if x.shape[2] >= FEW or geometry.padding == (0, 0):
        return x, geometry
    return padded(x, *geometry.padding), replace(geometry, padding=(0, 0))


def convolution(x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """Client i's images convolved with client i's weights."""
    x, w = channels_last(x), w.contiguous()
    bias = None if bias is None else bias.contiguous()
    kernel = (w.shape[3], w.shape[4])
    size = geometry.size((x.shape[3], x.shape[4]), kernel)
    y = empty(x, len(w), x.shape[1], w.shape[1], *size)
    x, geometry = _bordered(x, geometry)
    if depthwise.fits(x.shape[2], w.shape[1], geometry):
        depthwise.correlate(x, w, bias, y, geometry)
        return y
    outputs = w.shape[1] // geometry.groups
    steps = (outputs * w.stride(1), *w.stride()[1:])
    _correlate(x, Taps(w, outputs, w.shape[2], kernel, *steps), bias, y, geometry)
    return y


def input_gradient(g: Tensor, w: Tensor, image: Pair, geometry: Geometry) -> Tensor:
    """The gradient with respect to the images: per phase, a correlation with turned weights."""
    g, w = channels_last(g), w.contiguous()
    channels, outputs = w.shape[2], w.shape[1] // geometry.groups
    dx = empty(g, len(w), g.shape[1], channels * geometry.groups, *image)
    alone = depthwise.fits(dx.shape[2], w.shape[1], geometry)
    down, right = (
        phases(*axis)
        for axis in zip(
            w.shape[3:], geometry.stride, geometry.padding, geometry.dilation, strict=True
        )
    )
    for i, one in enumerate(down):
        for j, two in enumerate(right):
            part = dx[..., i :: geometry.stride[0], j :: geometry.stride[1]]
            if not (one.taps and two.taps):
                part.zero_()
                continue
            if not part.numel():
                continue
            here = Geometry(
                padding=(one.padding, two.padding),
                dilation=(one.dilation, two.dilation),
                groups=geometry.groups,
            )
            if alone:
                rows, columns = (w.shape[3:][a] - 1 - p.last for a, p in ((0, one), (1, two)))
                turned = w.flip(3, 4)[..., rows :: one.step, columns :: two.step]
                depthwise.correlate(g, turned, None, part, here)
                continue
            taps = Taps(
                w[..., one.last, two.last], channels, outputs, (one.taps, two.taps),
                outputs * w.stride(1), w.stride(2), w.stride(1),
                -one.step * w.stride(3), -two.step * w.stride(4),
            )  # fmt: skip
            _correlate(g, taps, None, part, here)
    return dx


def weight_gradient(
    x: Tensor, g: Tensor, kernel: Pair, bias: bool, geometry: Geometry
) -> tuple[Tensor, Tensor]:
    """The gradients with respect to weights and bias; the latter is empty if not asked for."""
    x, g = channels_last(x), channels_last(g)
    if depthwise.fits(x.shape[2], g.shape[2], geometry):
        return depthwise.weight_gradient(x, g, kernel, bias, geometry)
    x, geometry = _bordered(x, geometry)
    n, images, _, high, wide = g.shape
    groups, image = geometry.groups, (x.shape[3], x.shape[4])
    channels, outputs = x.shape[2] // groups, g.shape[2] // groups
    border = geometry.overhangs(image, kernel, (high, wide))
    plain = groups == geometry.stride[1] == geometry.dilation[1] == 1 and kernel[1] > 1
    joined = plan.joined(outputs, 32, wide, plain)
    columns, taps_wide = joined * outputs, kernel[1] + joined - 1
    k = kernel[0] * taps_wide * channels
    blocks = plan.gradient(k, columns, kind(x))
    tiles_k, tiles_n = -(-k // blocks.k), -(-columns // blocks.n)
    rows = images * high * wide // joined
    programs = n * groups * tiles_k * tiles_n
    share = plan.share(rows, blocks.m, programs)
    parts = -(-rows // share)
    some = x.new_empty(parts, n, groups, k, columns, dtype=torch.float32)
    sums = x.new_empty(parts, n, groups, columns if bias else 0, dtype=torch.float32)
    kernels.weight_gradient[(programs * parts,)](
        x, g, some, sums,
        rows, share, *image,
        x.stride(0), x.stride(1), x.stride(3), x.stride(4), x.stride(2),
        g.stride(0), joined * g.stride(4),
        k, columns, n, groups,
        geometry.stride[0], joined * geometry.stride[1], *geometry.padding, *geometry.dilation,
        tiles_k, tiles_n,
        C=channels, TAPS_WIDE=taps_wide, HIGH=high, WIDE=wide // joined,
        BORDER=border, EVEN=k % blocks.k == 0, BIAS=bias, PRECISION=PRECISION[kind(x)],
        BM=blocks.m, BN=blocks.n, BK=blocks.k, num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip
    dw = some.new_empty(n, groups * outputs, channels, *kernel)
    size = dw[0].numel() // groups
    packing.unpack[(n * groups * -(-size // PACK),)](
        some, dw, size, parts, some.stride(0),
        JOINED=joined, OUTPUTS=outputs, INPUTS=channels, R=kernel[0], S=kernel[1], BLOCK=PACK,
    )  # fmt: skip
    if not bias:
        return dw, sums.flatten()
    return dw, sums.view(parts, n, groups, joined, outputs).sum((0, 3)).view(n, -1)
