"""Triton kernels: convolutions of many clients at once as products of matrices never written down.

One row of the left matrix is one output pixel of one client's minibatch, one column of the right
matrix an output channel, and what they are multiplied along is k = (tap row, tap column, input
channel), a place in the input relative to the pixel. Images have their channels last.
"""

import triton
import triton.language as tl


@triton.jit
def correlate(
    x, w, bias, y,
    rows, high, wide, H, W,
    x_client, x_image, x_row, x_column, x_channel,
    y_client, y_image, y_row, y_column,
    C, K, N, F, taps_wide, groups,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_m, tiles_n,
    FLAT: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Y[m, f] = sum_k x[place(m, k)] w[f, k] + bias[f mod F], per client and group.

    ``rows`` = images x high x wide output pixels of a client. ``FLAT`` takes any C; otherwise BK
    divides C, so that a block of k lies within one tap and padding is a mask over rows alone.
    """
    pid = tl.program_id(0)
    tile_n = pid % tiles_n
    pid = pid // tiles_n
    tile_m = pid % tiles_m
    pid = pid // tiles_m
    group = pid % groups
    client = (pid // groups).to(tl.int64)

    m = tile_m * BM + tl.arange(0, BM)
    column = m % wide
    row = (m // wide) % high
    image = m // (wide * high)
    real = m < rows
    top = row * stride_h - pad_h
    left = column * stride_w - pad_w
    corner = image * x_image + top * x_row + left * x_column
    here = x + client * x_client + group * C * x_channel
    f = tile_n * BN + tl.arange(0, BN)
    there = w + (client * groups + group) * N * K
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + k
        if FLAT:
            tap = at // C
            down = (tap // taps_wide) * dilation_h
            right = (tap % taps_wide) * dilation_w
            place = down * x_row + right * x_column + (at % C) * x_channel
            lower = top[:, None] + down[None, :]
            further = left[:, None] + right[None, :]
            inside = (lower >= 0) & (lower < H) & (further >= 0) & (further < W)
            a = tl.load(
                here + (corner[:, None] + place[None, :]),
                mask=inside & real[:, None] & (at < K)[None, :],
                other=0.0,
            )
            b = tl.load(
                there + (f[None, :] * K + at[:, None]),
                mask=(f < N)[None, :] & (at < K)[:, None],
                other=0.0,
            )
        else:
            tap = start // C
            down = (tap // taps_wide) * dilation_h
            right = (tap % taps_wide) * dilation_w
            inside = real & (top + down >= 0) & (top + down < H)
            inside &= (left + right >= 0) & (left + right < W)
            place = corner + (down * x_row + right * x_column + start - tap * C)
            a = tl.load(here + (place[:, None] + k[None, :]), mask=inside[:, None], other=0.0)
            b = tl.load(there + (f[None, :] * K + at[:, None]), mask=(f < N)[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    if BIAS:
        add = tl.load(bias + (client * groups + group) * F + f % F, mask=f < N, other=0.0)
        total += add.to(tl.float32)[None, :]
    out = y + client * y_client + group * N
    places = image * y_image + row * y_row + column * y_column
    tl.store(
        out + (places[:, None] + f[None, :]),
        total.to(y.dtype.element_ty),
        mask=real[:, None] & (f < N)[None, :],
    )


@triton.jit
def weight_gradient(
    x, g, dw, db,
    rows, share, H, W,
    x_client, x_image, x_row, x_column, x_channel,
    g_client, g_image, g_row, g_column,
    C, K, N, taps_wide, clients, groups,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_k, tiles_n,
    HIGH: tl.constexpr, WIDE: tl.constexpr, PADDED: tl.constexpr, BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """dw[k, f] = sum_m x[place(m, k)] g[m, f], and db[f] = sum_m g[m, f].

    Over ``share`` rows, a multiple of BM; the parts of a client's rows are added up later, always
    in the same order. ``PADDED`` says that there are taps beyond the border.
    """
    pid = tl.program_id(0)
    tile_n = pid % tiles_n
    pid = pid // tiles_n
    tile_k = pid % tiles_k
    pid = pid // tiles_k
    group = pid % groups
    pid = pid // groups
    client = (pid % clients).to(tl.int64)
    part = (pid // clients).to(tl.int64)

    k = tile_k * BK + tl.arange(0, BK)
    tap = k // C
    down = (tap // taps_wide) * dilation_h - pad_h
    right = (tap % taps_wide) * dilation_w - pad_w
    place = down * x_row + right * x_column + (k % C) * x_channel
    f = tile_n * BN + tl.arange(0, BN)
    here = x + client * x_client + group * C * x_channel
    there = g + client * g_client + group * N
    total = tl.zeros((BK, BN), dtype=tl.float32)
    sums = tl.zeros((BN,), dtype=tl.float32)
    first = part.to(tl.int32) * share
    for start in range(first, tl.minimum(first + share, rows), BM):
        m = start + tl.arange(0, BM)
        real = m < rows
        column = m % WIDE
        row = (m // WIDE) % HIGH
        image = m // (WIDE * HIGH)
        corner = image * x_image + row * stride_h * x_row + column * stride_w * x_column
        inside = (k < K)[:, None] & real[None, :]
        if PADDED:
            lower = down[:, None] + (row * stride_h)[None, :]
            further = right[:, None] + (column * stride_w)[None, :]
            inside &= (lower >= 0) & (lower < H) & (further >= 0) & (further < W)
        a = tl.load(here + (place[:, None] + corner[None, :]), mask=inside, other=0.0)
        b = tl.load(
            there + ((image * g_image + row * g_row + column * g_column)[:, None] + f[None, :]),
            mask=real[:, None] & (f < N)[None, :],
            other=0.0,
        )
        total = tl.dot(a, b, total, input_precision=PRECISION)
        if BIAS:
            sums += tl.sum(b.to(tl.float32), 0)
    block = (part * clients + client) * groups + group
    tl.store(
        dw + block * K * N + (k[:, None] * N + f[None, :]),
        total,
        mask=(k < K)[:, None] & (f < N)[None, :],
    )
    if BIAS:
        if tile_k == 0:
            tl.store(db + block * N + f, sums, mask=f < N)
