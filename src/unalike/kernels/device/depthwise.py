"""Triton kernels: convolutions of every channel alone, for many clients at once.

They contain no matrix product; their speed depends on reading every pixel from memory only once.
Images have their channels last.
"""

import triton
import triton.language as tl

from unalike.kernels.device.convolution import pixel, within


@triton.jit(do_not_specialize=["H", "W"])
def correlate(
    x, w, bias, y,
    rows, H, W,
    x_client, x_image, x_row, x_column,
    y_client, y_image, y_row, y_column,
    C,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_m, tiles_c,
    HIGH: tl.constexpr, WIDE: tl.constexpr, TAPS: tl.constexpr, TAPS_WIDE: tl.constexpr,
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
    known = c < C
    image, row, column = pixel(tl.minimum(m, rows - 1), HIGH, WIDE)
    top = row * stride_h - pad_h
    left = column * stride_w - pad_w
    corner = image * x_image + top * x_row + left * x_column
    here = x + client * x_client
    there = w + client * TAPS * C
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for tap in range(TAPS):
        down = (tap // TAPS_WIDE) * dilation_h
        right = (tap % TAPS_WIDE) * dilation_w
        inside = within(top + down, H) & within(left + right, W)
        place = corner + (down * x_row + right * x_column)
        a = tl.load(
            here + (place[:, None] + c[None, :]), mask=inside[:, None] & known[None, :], other=0.0
        )
        b = tl.load(there + (tap * C + c), mask=known, other=0.0)
        total += a.to(tl.float32) * b.to(tl.float32)[None, :]
    if BIAS:
        total += tl.load(bias + client * C + c, mask=known, other=0.0).to(tl.float32)[None, :]
    places = image * y_image + row * y_row + column * y_column
    tl.store(
        y + client * y_client + (places[:, None] + c[None, :]),
        total.to(y.dtype.element_ty),
        mask=(m < rows)[:, None] & known[None, :],
    )


@triton.jit(do_not_specialize=["H", "W"])
def weight_gradient(
    x, g, dw, db,
    rows, share, H, W,
    x_client, x_image, x_row, x_column,
    g_client,
    C, clients,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_c,
    HIGH: tl.constexpr, WIDE: tl.constexpr, TAPS: tl.constexpr, TAPS_WIDE: tl.constexpr,
    BIAS: tl.constexpr, BT: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dw[tap, c] = sum_m x[m + tap, c] g[m, c], and db[c] = sum_m g[m, c], over ``share`` rows.

    BT is the number of taps, rounded up.
    """
    pid = tl.program_id(0)
    tile_c = pid % tiles_c
    pid = pid // tiles_c
    client = (pid % clients).to(tl.int64)
    part = pid // clients

    c = tile_c * BC + tl.arange(0, BC)
    t = tl.arange(0, BT)
    i = tl.arange(0, BM)
    known = (c < C)[None, :]
    here = x + client * x_client
    there = g + client * g_client
    total = tl.zeros((BT, BC), dtype=tl.float32)
    sums = tl.zeros((BC,), dtype=tl.float32)
    first = part * share
    for start in range(first, tl.minimum(first + share, rows), BM):
        m = start + i
        image, row, column = pixel(tl.minimum(m, rows - 1), HIGH, WIDE)
        top = row * stride_h - pad_h
        left = column * stride_w - pad_w
        corner = image * x_image + top * x_row + left * x_column
        b = tl.load(
            there + (m[:, None] * C + c[None, :]), mask=(m < rows)[:, None] & known, other=0.0
        ).to(tl.float32)
        for tap in range(TAPS):
            down = (tap // TAPS_WIDE) * dilation_h
            right = (tap % TAPS_WIDE) * dilation_w
            inside = within(top + down, H) & within(left + right, W)
            place = corner + (down * x_row + right * x_column)
            a = tl.load(
                here + (place[:, None] + c[None, :]), mask=inside[:, None] & known, other=0.0
            )
            one = tl.sum(a.to(tl.float32) * b, 0)
            total += tl.where((t == tap)[:, None], one[None, :], 0.0)
        if BIAS:
            sums += tl.sum(b, 0)
    block = part.to(tl.int64) * clients + client
    tl.store(
        dw + block * TAPS * C + (t[:, None] * C + c[None, :]),
        total,
        mask=(t < TAPS)[:, None] & known,
    )
    if BIAS:
        tl.store(db + block * C + c, sums, mask=c < C)
