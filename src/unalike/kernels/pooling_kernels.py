"""Triton kernels: the largest value of every window, with a ReLU on it if wanted, and the way back.

An image has its channels last. Where in its window a value was found is one byte, NOWHERE where
the ReLU is off; the way back gathers, so that every sum has a fixed order.
"""

import triton
import triton.language as tl

NOWHERE = tl.constexpr(255)


@triton.jit
def largest(
    x, y, found,
    rows, high, wide, H, W,
    x_image, x_row, x_column, C,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_c,
    RELU: tl.constexpr, R: tl.constexpr, S: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Y[m, c] = max over the window of pixel m; the first of equal values is the one found."""
    pid = tl.program_id(0)
    c = (pid % tiles_c) * BC + tl.arange(0, BC)
    m = (pid // tiles_c).to(tl.int64) * BM + tl.arange(0, BM)
    column = (m % wide).to(tl.int32)
    row = ((m // wide) % high).to(tl.int32)
    image = m // (wide * high)
    real = (m < rows)[:, None] & (c < C)[None, :]
    best = tl.full((BM, BC), float("-inf"), dtype=tl.float32)
    where = tl.full((BM, BC), 0, dtype=tl.int32)
    for tap in tl.static_range(R * S):
        top = row * stride_h - pad_h + (tap // S) * dilation_h
        left = column * stride_w - pad_w + (tap % S) * dilation_w
        inside = (top >= 0) & (top < H) & (left >= 0) & (left < W)
        place = image * x_image + top * x_row + left * x_column
        v = tl.load(
            x + (place[:, None] + c[None, :]), mask=real & inside[:, None], other=float("-inf")
        ).to(tl.float32)
        larger = (v > best) | (v != v)  # a NaN is found like a large number
        best = tl.where(larger, v, best)
        where = tl.where(larger, tap, where)
    if RELU:
        off = best <= 0
        where = tl.where(off, NOWHERE, where)
        best = tl.where(off, 0.0, best)
    place = m[:, None] * C + c[None, :]
    tl.store(y + place, best.to(y.dtype.element_ty), mask=real)
    tl.store(found + place, where.to(tl.uint8), mask=real)


@triton.jit
def spread(
    g, found, dx,
    rows, high, wide, H, W,
    C,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_c,
    DISJOINT: tl.constexpr, R: tl.constexpr, S: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dx[m, c] = the sum of g over the windows in which pixel m was found.

    ``DISJOINT`` windows tile the image, so a pixel lies in one; otherwise all taps are tried.
    """
    pid = tl.program_id(0)
    c = (pid % tiles_c) * BC + tl.arange(0, BC)
    m = (pid // tiles_c).to(tl.int64) * BM + tl.arange(0, BM)
    left = (m % W).to(tl.int32) + pad_w
    top = ((m // W) % H).to(tl.int32) + pad_h
    image = m // (W * H)
    real = (m < rows)[:, None] & (c < C)[None, :]
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for tap in tl.static_range(1 if DISJOINT else R * S):
        if DISJOINT:
            row = top // R
            column = left // S
            mine = (top % R) * S + left % S
            inside = (row < high) & (column < wide)
        else:
            down = top - (tap // S) * dilation_h
            right = left - (tap % S) * dilation_w
            row = down // stride_h
            column = right // stride_w
            mine = tl.full((BM,), tap, dtype=tl.int32)
            inside = (down >= 0) & (down % stride_h == 0) & (row < high)
            inside &= (right >= 0) & (right % stride_w == 0) & (column < wide)
        place = ((image * high + row) * wide + column)[:, None] * C + c[None, :]
        ok = real & inside[:, None]
        where = tl.load(found + place, mask=ok, other=NOWHERE).to(tl.int32)
        v = tl.load(g + place, mask=ok, other=0.0).to(tl.float32)
        total += tl.where(where == mine[:, None], v, 0.0)
    tl.store(dx + (m[:, None] * C + c[None, :]), total.to(dx.dtype.element_ty), mask=real)
