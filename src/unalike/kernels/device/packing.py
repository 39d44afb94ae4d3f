"""Triton kernels: weights in the order in which a product reads them, and gradients back again.

Neighbouring output pixels that are computed as one row of the product, ``JOINED`` of them, share
most of their taps: pixel j has its taps j columns further to the right, with zeros around them.
"""

import triton
import triton.language as tl


@triton.jit
def pack(
    w, out,
    size,
    w_client, w_group, w_output, w_input, w_row, w_column,
    JOINED: tl.constexpr, OUTPUTS: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
    INPUTS: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[client, group, j, output, r, s, input] = w[client, group, output, input, r, s - j].

    ``size`` is a client's share of ``out``. Negative steps turn taps around.
    """
    WIDE: tl.constexpr = S + JOINED - 1
    blocks = tl.cdiv(size, BLOCK)
    pid = tl.program_id(0)
    client = (pid // blocks).to(tl.int64)
    i = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    c = i % INPUTS
    t = i // INPUTS
    j = (t // (WIDE * R * OUTPUTS)) % JOINED
    s = t % WIDE - j
    t = t // WIDE
    r = t % R
    f = (t // R) % OUTPUTS
    group = t // (R * OUTPUTS * JOINED)
    place = group * w_group + f * w_output + c * w_input + r * w_row + s * w_column
    taps = (i < size) & (s >= 0) & (s < S)
    v = tl.load(w + client * w_client + place, mask=taps, other=0.0)
    if ROUND:  # tensor units cut the last 13 bits off, which makes all products too small
        bits = (v.to(tl.uint32, bitcast=True) + 0x1000) & 0xFFFFE000
        v = tl.where(tl.abs(v) < float("inf"), bits.to(tl.float32, bitcast=True), v)
    tl.store(out + client * size + i, v.to(out.dtype.element_ty), mask=i < size)


@triton.jit
def unpack(
    dw, out,
    size, parts, dw_part,
    JOINED: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, R: tl.constexpr,
    S: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[b, output, input, r, s] = sum_part sum_j dw[part, b, (r, s + j, input), (j, output)].

    b is one group of one client, ``size`` its share of ``out``, ``dw_part`` the step between parts.
    """
    WIDE: tl.constexpr = S + JOINED - 1
    blocks = tl.cdiv(size, BLOCK)
    pid = tl.program_id(0)
    b = (pid // blocks).to(tl.int64)
    i = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    s = i % S
    r = (i // S) % R
    c = (i // (S * R)) % INPUTS
    f = i // (S * R * INPUTS)
    here = dw + b * (R * WIDE * INPUTS * JOINED * OUTPUTS)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        for j in tl.static_range(JOINED):
            k = (r * WIDE + s + j) * INPUTS + c
            place = (k * JOINED + j) * OUTPUTS + f
            total += tl.load(here + part * dw_part + place, mask=i < size, other=0.0)
    tl.store(out + b * size + i, total, mask=i < size)
