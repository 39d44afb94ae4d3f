"""Triton kernels: dense layers of many clients with few rows each, limited by memory alone."""

import triton
import triton.language as tl


@triton.jit
def _rounded(v, ROUND: tl.constexpr):
    """To the bits that tensor units keep; cutting the others off would make sums too small."""
    if ROUND:
        bits = (v.to(tl.uint32, bitcast=True) + 0x1000) & 0xFFFFE000
        v = tl.where(tl.abs(v) < float("inf"), bits.to(tl.float32, bitcast=True), v)
    return v


@triton.jit
def move(
    w, g, x, step, out,
    rows, outputs, inputs,
    g_client, g_row, g_column, x_client, x_row, x_column,
    ROUND: tl.constexpr, BB: tl.constexpr, BO: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """out[client, o, i] = w[client, o, i] + step sum_b g[client, b, o] x[client, b, i]."""
    client = tl.program_id(2).to(tl.int64)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    inside = (o < outputs)[:, None] & (i < inputs)[None, :]
    place = client * outputs * inputs + o[:, None] * inputs + i[None, :]
    old = tl.load(w + place, mask=inside, other=0.0)
    g += client * g_client
    x += client * x_client
    total = tl.zeros((BO, BI), dtype=tl.float32)
    for first in range(0, rows, BB):
        b = first + tl.arange(0, BB)
        left = tl.load(
            g + o[:, None] * g_column + b[None, :] * g_row,
            mask=(o < outputs)[:, None] & (b < rows)[None, :], other=0.0,
        )  # fmt: skip
        right = tl.load(
            x + b[:, None] * x_row + i[None, :] * x_column,
            mask=(b < rows)[:, None] & (i < inputs)[None, :], other=0.0,
        )  # fmt: skip
        total = tl.dot(_rounded(left, ROUND), _rounded(right, ROUND), total)
    tl.store(out + place, old + tl.load(step) * total, mask=inside)


@triton.jit
def multiply(
    x, w, y,
    rows, outputs, inputs,
    x_client, x_row, w_client, w_row,
    ROUND: tl.constexpr, BB: tl.constexpr, BO: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """y[client, b, o] = sum_i x[client, b, i] w[client, o, i], with at most BB rows."""
    client = tl.program_id(1).to(tl.int64)
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    b = tl.arange(0, BB)
    x += client * x_client
    w += client * w_client
    total = tl.zeros((BB, BO), dtype=tl.float32)
    for first in range(0, inputs, BI):
        i = first + tl.arange(0, BI)
        left = tl.load(
            x + b[:, None] * x_row + i[None, :],
            mask=(b < rows)[:, None] & (i < inputs)[None, :], other=0.0,
        )  # fmt: skip
        right = tl.load(
            w + o[None, :] * w_row + i[:, None],
            mask=(o < outputs)[None, :] & (i < inputs)[:, None], other=0.0,
        )  # fmt: skip
        total = tl.dot(_rounded(left, ROUND), _rounded(right, ROUND), total)
    inside = (b < rows)[:, None] & (o < outputs)[None, :]
    place = client * rows * outputs + b[:, None] * outputs + o[None, :]
    tl.store(y + place, total, mask=inside)


@triton.jit
def multiply_rounded(
    x, w, y, short,
    rows, outputs, inputs,
    x_client, x_row,
    BB: tl.constexpr, BO: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """y[client, b, o] = sum_i x[client, b, i] short[client, o, i], with short = w in x's type."""
    client = tl.program_id(1).to(tl.int64)
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    b = tl.arange(0, BB)
    x += client * x_client
    w += client * outputs * inputs
    short += client * outputs * inputs
    total = tl.zeros((BB, BO), dtype=tl.float32)
    for first in range(0, inputs, BI):
        i = first + tl.arange(0, BI)
        left = tl.load(
            x + b[:, None] * x_row + i[None, :],
            mask=(b < rows)[:, None] & (i < inputs)[None, :], other=0.0,
        )  # fmt: skip
        place = o[:, None] * inputs + i[None, :]
        inside = (o < outputs)[:, None] & (i < inputs)[None, :]
        right = tl.load(w + place, mask=inside, other=0.0).to(short.dtype.element_ty)
        tl.store(short + place, right, mask=inside)
        total = tl.dot(left, tl.trans(right), total)
    inside = (b < rows)[:, None] & (o < outputs)[None, :]
    place = client * rows * outputs + b[:, None] * outputs + o[None, :]
    tl.store(y + place, total.to(y.dtype.element_ty), mask=inside)
