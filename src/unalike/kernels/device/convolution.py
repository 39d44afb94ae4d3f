"""Triton kernels: convolutions of many clients as products of matrices that are never stored.

One row of the left matrix is one output pixel of one client's minibatch, one column of the right
matrix an output channel, and what they are multiplied along is k = (tap row, tap column, input
channel), a place in the input relative to the pixel. Images have their channels last.

What limits these kernels is not the products but the arithmetic of addresses, so divisors are
constants and a range check is one comparison of unsigned numbers.
"""

import triton
import triton.language as tl


@triton.jit
def within(i, size):
    """0 <= i < size."""
    return i.to(tl.uint32, bitcast=True) < size.to(tl.uint32)


@triton.jit
def pixel(m, HIGH: tl.constexpr, WIDE: tl.constexpr):
    """(image, row, column) of pixel m; unsigned numbers are divided faster."""
    line = (m.to(tl.uint32) // WIDE).to(tl.int32)
    image = (line.to(tl.uint32) // HIGH).to(tl.int32)
    return image, line - image * HIGH, m - line * WIDE


@triton.jit(do_not_specialize=["H", "W"])  # a height of 1 would be a constant on the device
def correlate(
    x, w, bias, y,
    rows, H, W,
    x_client, x_image, x_row, x_column, x_channel,
    y_client, y_image, y_row, y_column,
    K, N, F, groups,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_m, tiles_n,
    HIGH: tl.constexpr, WIDE: tl.constexpr, C: tl.constexpr, TAPS_WIDE: tl.constexpr,
    FLAT: tl.constexpr, BORDER: tl.constexpr, EVEN: tl.constexpr, BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Y[m, f] = sum_k x[place(m, k)] w[f, k] + bias[f mod F], per client and group.

    ``rows`` = images x HIGH x WIDE output pixels of a client. ``FLAT`` takes any C; otherwise BK
    divides C, so that a block of k lies within one tap. ``BORDER``: some taps lie outside of the
    image, where it is zero. ``EVEN``: BN divides N.
    """
    pid = tl.program_id(0)
    tile_n = pid % tiles_n
    pid = pid // tiles_n
    tile_m = pid % tiles_m
    pid = pid // tiles_m
    group = pid % groups
    client = (pid // groups).to(tl.int64)

    row_number = tile_m * BM + tl.arange(0, BM)
    real = row_number < rows
    m = tl.minimum(row_number, rows - 1)  # what is read in excess exists, and is not written
    image, row, column = pixel(m, HIGH, WIDE)
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
            down = (tap // TAPS_WIDE) * dilation_h
            right = (tap % TAPS_WIDE) * dilation_w
            place = down * x_row + right * x_column + (at % C) * x_channel
            inside = (at < K)[None, :]
            if BORDER:
                inside &= within(top[:, None] + down[None, :], H)
                inside &= within(left[:, None] + right[None, :], W)
            a = tl.load(here + (corner[:, None] + place[None, :]), mask=inside, other=0.0)
            known = (f < N)[None, :] & (at < K)[:, None]
            b = tl.load(there + (f[None, :] * K + at[:, None]), mask=known, other=0.0)
        else:
            tap = start // C
            down = (tap // TAPS_WIDE) * dilation_h
            right = (tap % TAPS_WIDE) * dilation_w
            place = corner + (down * x_row + right * x_column + start - tap * C)
            pixels = here + (place[:, None] + k[None, :])
            if BORDER:
                inside = within(top + down, H) & within(left + right, W)
                a = tl.load(pixels, mask=inside[:, None], other=0.0)
            else:
                a = tl.load(pixels)
            weights = there + (f[None, :] * K + at[:, None])
            if EVEN:  # noqa: SIM108 (Triton compiles one branch alone only of a statement)
                b = tl.load(weights)
            else:
                b = tl.load(weights, mask=(f < N)[None, :], other=0.0)
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
def _products(
    here, there, k, f, first, end, rows, H, W,
    x_image, x_row, x_column, x_channel, g_pixel, K, N,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    C: tl.constexpr, TAPS_WIDE: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    BORDER: tl.constexpr, EVEN: tl.constexpr, SUM: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """(sum_m x[place(m, k)] g[m, f], sum_m g[m, f] if ``SUM``) over rows ``first`` <= m < ``end``.

    Rows beyond the last one read what exists, times zeros. ``EVEN``: no k is beyond the last one.
    """
    tap = k // C
    down = (tap // TAPS_WIDE) * dilation_h - pad_h
    right = (tap % TAPS_WIDE) * dilation_w - pad_w
    place = down * x_row + right * x_column + (k % C) * x_channel
    i = tl.arange(0, BM)
    pixels = (i * g_pixel)[:, None] + f[None, :]
    total = tl.zeros((BK, BN), dtype=tl.float32)
    sums = tl.zeros((BN,), dtype=tl.float32)
    for start in range(first, end, BM):
        image, row, column = pixel(tl.minimum(start + i, rows - 1), HIGH, WIDE)
        corner = image * x_image + row * (stride_h * x_row) + column * (stride_w * x_column)
        taken = here + (place[:, None] + corner[None, :])
        if BORDER:
            inside = within(down[:, None] + (row * stride_h)[None, :], H)
            inside &= within(right[:, None] + (column * stride_w)[None, :], W)
            if not EVEN:
                inside &= (k < K)[:, None]
            a = tl.load(taken, mask=inside, other=0.0)
        elif EVEN:
            a = tl.load(taken)
        else:
            a = tl.load(taken, mask=(k < K)[:, None], other=0.0)
        known = (start + i < rows)[:, None] & (f < N)[None, :]
        b = tl.load(there + start * g_pixel + pixels, mask=known, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
        if SUM:
            sums += tl.sum(b.to(tl.float32), 0)
    return total, sums


@triton.jit(do_not_specialize=["H", "W"])
def weight_gradient(
    x, g, dw, db,
    rows, share, H, W,
    x_client, x_image, x_row, x_column, x_channel,
    g_client, g_pixel,
    K, N, clients, groups,
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
    tiles_k, tiles_n,
    C: tl.constexpr, TAPS_WIDE: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    BORDER: tl.constexpr, EVEN: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """dw[k, f] = sum_m x[place(m, k)] g[m, f], and db[f] = sum_m g[m, f].

    Over ``share`` rows; the parts of a client's rows are added up later, always in the same order.
    """
    pid = tl.program_id(0)
    tile_n = pid % tiles_n
    pid = pid // tiles_n
    tile_k = pid % tiles_k
    pid = pid // tiles_k
    group = pid % groups
    pid = pid // groups
    client = (pid % clients).to(tl.int64)
    part = pid // clients

    k = tile_k * BK + tl.arange(0, BK)
    f = tile_n * BN + tl.arange(0, BN)
    here = x + client * x_client + group * C * x_channel
    there = g + client * g_client + group * N
    block = (part.to(tl.int64) * clients + client) * groups + group
    first = part * share
    end = tl.minimum(first + share, rows)
    if BIAS and tile_k == 0:  # one program's work, and a tenth more of it
        total, sums = _products(
            here, there, k, f, first, end, rows, H, W,
            x_image, x_row, x_column, x_channel, g_pixel, K, N,
            stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
            C, TAPS_WIDE, HIGH, WIDE, BORDER, EVEN, True, PRECISION, BM, BN, BK,
        )  # fmt: skip
        tl.store(db + block * N + f, sums, mask=f < N)
    else:
        total, _ = _products(
            here, there, k, f, first, end, rows, H, W,
            x_image, x_row, x_column, x_channel, g_pixel, K, N,
            stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
            C, TAPS_WIDE, HIGH, WIDE, BORDER, EVEN, False, PRECISION, BM, BN, BK,
        )  # fmt: skip
    tl.store(
        dw + block * K * N + (k[:, None] * N + f[None, :]),
        total,
        mask=(k < K)[:, None] & (f < N)[None, :],
    )
