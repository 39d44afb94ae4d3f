"""Triton kernels: the largest value of every window, with a ReLU on it if wanted, and the way back.

Images have their channels last, the pooled ones and their gradient in any order. Where in its
window a value was found is one byte, NOWHERE where the ReLU is off; the way back gathers, so that
every sum has a fixed order.
"""

import triton
import triton.language as tl

from unalike.kernels.device.convolution import pixel

NOWHERE = tl.constexpr(255)


@triton.jit
def _block(
    pixels, tiles_c, HIGH: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr
):
    """(image, row, column) of a program's pixels, its channels, and its pixels' numbers."""
    pid = tl.program_id(0)
    c = (pid % tiles_c) * BC + tl.arange(0, BC)
    m = (pid // tiles_c) * BM + tl.arange(0, BM)
    image, row, column = pixel(m, HIGH, WIDE)
    return image.to(tl.int64), row, column, c, m


@triton.jit
def largest(
    x, y, found,
    pixels, C, tiles_c, y_image, y_channel, y_row, y_column,
    RELU: tl.constexpr, H: tl.constexpr, W: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr, PAD_W: tl.constexpr, DILATION_H: tl.constexpr, DILATION_W: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Y[m, c] = max over the window of pixel m; the first of equal values is the one found."""
    image, row, column, c, m = _block(pixels, tiles_c, HIGH, WIDE, BM, BC)
    real = (m < pixels)[:, None] & (c < C)[None, :]
    here = x + image * (H * W * C)
    best = tl.full((BM, BC), float("-inf"), dtype=tl.float32)
    where = tl.full((BM, BC), 0, dtype=tl.int32)
    for tap in tl.static_range(R * S):
        top = row * STRIDE_H - PAD_H + (tap // S) * DILATION_H
        left = column * STRIDE_W - PAD_W + (tap % S) * DILATION_W
        inside = (top >= 0) & (top < H) & (left >= 0) & (left < W)
        place = here + (top * W + left) * C
        v = tl.load(
            place[:, None] + c[None, :], mask=real & inside[:, None], other=float("-inf")
        ).to(tl.float32)
        larger = (v > best) | (v != v)  # a NaN is found like a large number
        best = tl.where(larger, v, best)
        where = tl.where(larger, tap, where)
    if RELU:
        off = best <= 0
        where = tl.where(off, NOWHERE, where)
        best = tl.where(off, 0.0, best)
    place = image * y_image + row * y_row + column * y_column
    best = best.to(y.dtype.element_ty)
    tl.store(y + place[:, None] + (c * y_channel)[None, :], best, mask=real)
    number = m.to(tl.int64)[:, None] * C + c[None, :]
    tl.store(found + number, where.to(tl.uint8), mask=real)


@triton.jit
def spread(
    g, found, dx,
    pixels, C, tiles_c, g_image, g_channel, g_row, g_column,
    DISJOINT: tl.constexpr, H: tl.constexpr, W: tl.constexpr, HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr, PAD_W: tl.constexpr, DILATION_H: tl.constexpr, DILATION_W: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dx[m, c] = the sum of g over the windows in which pixel m was found.

    ``DISJOINT`` windows do not overlap, so one tap at most is a pixel's; otherwise all are tried.
    """
    image, row, column, c, m = _block(pixels, tiles_c, H, W, BM, BC)
    real = (m < pixels)[:, None] & (c < C)[None, :]
    TAPS: tl.constexpr = 1 if DISJOINT else R * S
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        if DISJOINT:
            down = row + PAD_H
            right = column + PAD_W
            mine = (down % R) * S + right % S
            inside = (down < HIGH * R) & (right < WIDE * S)
        else:
            down = row + PAD_H - (tap // S) * DILATION_H
            right = column + PAD_W - (tap % S) * DILATION_W
            mine = tl.full((BM,), tap, dtype=tl.int32)
            inside = (down >= 0) & (down % STRIDE_H == 0) & (down < HIGH * STRIDE_H)
            inside &= (right >= 0) & (right % STRIDE_W == 0) & (right < WIDE * STRIDE_W)
        above = down // STRIDE_H
        before = right // STRIDE_W
        ok = real & inside[:, None]
        number = image * (HIGH * WIDE * C) + (above * WIDE + before) * C
        where = tl.load(found + number[:, None] + c[None, :], mask=ok, other=NOWHERE)
        place = image * g_image + above * g_row + before * g_column
        v = tl.load(g + place[:, None] + (c * g_channel)[None, :], mask=ok, other=0.0)
        total += tl.where(where.to(tl.int32) == mine[:, None], v.to(tl.float32), 0.0)
    number = m.to(tl.int64)[:, None] * C + c[None, :]
    tl.store(dx + number, total.to(dx.dtype.element_ty), mask=real)
