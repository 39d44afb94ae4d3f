"""Triton kernels: convolutions of every channel alone, for many clients at once.

There is no matrix product in them, and what counts is to read every pixel from memory once.
Images have their channels last.
"""

import triton
import triton.language as tl


@triton.jit
def correlate(
    x, w, bias, y,
    rows, high, wide, H, W,
    x_client, x_image, x_row, x_column,
    y_client, y_image, y_row, y_column,
    C, taps, taps_wide,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_m, tiles_c,
    BIAS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Y[m, c] = sum_tap x[m + tap, c] w[tap, c] + bias[c], per client."""
    pid = tl.program_id(0)
    tile_c = pid % tiles_c
    pid = pid // tiles_c
    tile_m = pid % tiles_m
    client = (pid // tiles_m).to(tl.int64)

    m = tile_m * BM + tl.arange(0, BM)
    c = tile_c * BC + tl.arange(0, BC)
    column = m % wide
    row = (m // wide) % high
    image = m // (wide * high)
    top = row * stride_h - pad_h
    left = column * stride_w - pad_w
    corner = image * x_image + top * x_row + left * x_column
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for tap in range(taps):
        down = (tap // taps_wide) * dilation_h
        right = (tap % taps_wide) * dilation_w
        inside = (m < rows) & (top + down >= 0) & (top + down < H)
        inside &= (left + right >= 0) & (left + right < W)
        place = corner + (down * x_row + right * x_column)
        a = tl.load(
            x + client * x_client + (place[:, None] + c[None, :]),
            mask=inside[:, None] & (c < C)[None, :],
            other=0.0,
        )
        b = tl.load(w + client * taps * C + tap * C + c, mask=c < C, other=0.0)
        total += a.to(tl.float32) * b.to(tl.float32)[None, :]
    if BIAS:
        total += tl.load(bias + client * C + c, mask=c < C, other=0.0).to(tl.float32)[None, :]
    places = image * y_image + row * y_row + column * y_column
    tl.store(
        y + client * y_client + (places[:, None] + c[None, :]),
        total.to(y.dtype.element_ty),
        mask=(m < rows)[:, None] & (c < C)[None, :],
    )


@triton.jit
def weight_gradient(
    x, g, dw, db,
    rows, share, high, wide, H, W,
    x_client, x_image, x_row, x_column,
    g_client, g_image, g_row, g_column,
    C, taps, taps_wide, clients,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_c,
    BIAS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dw[tap, c] = sum_m x[m + tap, c] g[m, c], and db[c] = sum_m g[m, c], over ``share`` rows."""
    pid = tl.program_id(0)
    tile_c = pid % tiles_c
    pid = pid // tiles_c
    tap = pid % taps
    pid = pid // taps
    client = (pid % clients).to(tl.int64)
    part = (pid // clients).to(tl.int64)

    c = tile_c * BC + tl.arange(0, BC)
    down = (tap // taps_wide) * dilation_h - pad_h
    right = (tap % taps_wide) * dilation_w - pad_w
    total = tl.zeros((BM, BC), dtype=tl.float32)
    sums = tl.zeros((BM, BC), dtype=tl.float32)
    first = part.to(tl.int32) * share
    for start in range(first, tl.minimum(first + share, rows), BM):
        m = start + tl.arange(0, BM)
        column = m % wide
        row = (m // wide) % high
        image = m // (wide * high)
        real = (m < rows)[:, None] & (c < C)[None, :]
        top = row * stride_h + down
        left = column * stride_w + right
        inside = (top >= 0) & (top < H) & (left >= 0) & (left < W)
        place = image * x_image + top * x_row + left * x_column
        a = tl.load(
            x + client * x_client + (place[:, None] + c[None, :]),
            mask=real & inside[:, None],
            other=0.0,
        )
        place = image * g_image + row * g_row + column * g_column
        b = tl.load(g + client * g_client + (place[:, None] + c[None, :]), mask=real, other=0.0).to(
            tl.float32
        )
        total += a.to(tl.float32) * b
        if BIAS:
            sums += b
    block = part * clients + client
    tl.store(dw + (block * taps + tap) * C + c, tl.sum(total, 0), mask=c < C)
    if BIAS and tap == 0:
        tl.store(db + block * C + c, tl.sum(sums, 0), mask=c < C)
