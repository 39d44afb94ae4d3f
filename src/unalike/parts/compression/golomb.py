"""Golomb code of ascending positions, optimal if each is there with the same chance p.

b = 1 + floor(log2(ln(phi - 1) / ln(1 - p))),  phi the golden ratio  (Sattler et al. 2019)
a gap of g entries between two positions: floor(g / 2^b) ones, a zero, then g mod 2^b in b bits
expected bits of a position: b + 1 / (1 - (1 - p)^(2^b))                    (there)

All remainders are written before all the unary parts. Not a bit more is sent than one position
after the other, and all of them can be read at once; no header is needed, since both ends know how
many positions there are and the last zero ends the message.
"""

import math

import torch
from torch import Tensor

from unalike.channel import Ragged
from unalike.parts.compression import bits


def parameter(k: int, n: int) -> int:
    """The bits b of a remainder for k positions among n.

    >>> parameter(1, 100), parameter(1, 20), parameter(1, 2)
    (6, 4, 0)
    """
    p = k / n
    if p >= 1:
        return 0
    golden = (math.sqrt(5) - 1) / 2
    return max(0, 1 + math.floor(math.log2(math.log(golden) / math.log(1 - p))))


def most(k: int, n: int) -> int:
    """Bytes that hold any message of k positions among n."""
    b = parameter(k, n)
    return -(-(k * (1 + b) + ((n - k) >> b)) // bits.BYTE)


def expected(k: int, n: int) -> float:
    """Bits of a position on average, where every entry is there with chance k / n.

    >>> round(expected(1, 100), 2)
    8.11
    """
    b = parameter(k, n)
    return b + 1 / (1 - (1 - k / n) ** (2**b))


def write(positions: Tensor, n: int) -> Ragged:
    """The message, from ascending positions."""
    k = len(positions)
    b, size = parameter(k, n), most(len(positions), n) * bits.BYTE
    gaps = torch.diff(positions, prepend=positions.new_full((1,), -1)) - 1
    shifts = torch.arange(b, device=positions.device)
    low = ((gaps[:, None] >> shifts) & 1).reshape(-1)
    ends = k * b + (gaps >> b).cumsum(0) + torch.arange(k, device=positions.device)
    places = torch.arange(size - k * b, device=positions.device) + k * b
    unary = (places <= ends[-1]).long().scatter(0, ends - k * b, 0)
    whole = bits.pack(torch.cat([low, unary]).bool())
    return Ragged(whole, -(-(ends[-1] + 1) // bits.BYTE))


def read(message: Ragged, k: int, n: int) -> Tensor:
    """The positions."""
    b = parameter(k, n)
    found = bits.unpack(message.data, len(message.data) * bits.BYTE).long()
    shifts = torch.arange(b, device=found.device)
    low = (found[: k * b].reshape(k, b) << shifts).sum(1)
    ends = torch.sort(found[k * b :], stable=True).indices[:k]  # zeros first, in their order
    high = torch.diff(ends, prepend=ends.new_full((1,), -1)) - 1
    return ((high << b) + low + 1).cumsum(0) - 1
