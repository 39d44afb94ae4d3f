"""How the numbers of an update are written.

eight bits:  round(v / s) in -127..127, s = max |v| / 127; rounding up or down by chance, so that
             the mean is v (Alistarh et al. 2017, QSGD, with the largest number for the norm), or
             to the nearest
one bit:     sign(v) times mean |v|                        (Karimireddy et al. 2019, Alg. 1)
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from unalike import rng
from unalike.parts.compression import bits
from unalike.rng import Key

LEVELS = 127


class Written(NamedTuple):
    """Numbers in few bits, and the one that they are multiples of."""

    numbers: Tensor
    scale: Tensor


class Values(Protocol):
    """A way to write a vector of numbers."""

    def write(self, v: Tensor, key: Key) -> Written:
        """What travels."""
        ...

    def read(self, sent: Written, n: int) -> Tensor:
        """``n`` numbers in the precision of the scale."""
        ...


@dataclass(frozen=True)
class EightBit:
    """A byte for a number, and one scale."""

    rounding: Literal["stochastic", "nearest"] = "stochastic"

    def write(self, v: Tensor, key: Key) -> Written:
        """Signed bytes."""
        scale, steps = _steps(v)
        if self.rounding == "nearest":
            whole = steps.round()
        else:
            chance = rng.uniform(rng.fold_in(key, rng.Stream.METHOD), len(v))
            whole = torch.floor(steps + chance.to(steps))
        return Written(whole.clamp(-LEVELS, LEVELS).to(torch.int8), scale)

    def read(self, sent: Written, n: int) -> Tensor:
        """Multiples of the scale."""
        return sent.numbers.to(sent.scale.dtype) * sent.scale


def _steps(v: Tensor) -> tuple[Tensor, Tensor]:
    """(the scale in the precision of ``v``, the numbers as multiples of it).

    Sixteen bits hold 127 steps but not where between two steps a number is, which decides how it is
    rounded; and a scale that is rounded down there would cut off the largest number.
    """
    exact = v.to(torch.promote_types(v.dtype, torch.float32))
    most = exact.abs().max()
    scale = (most / LEVELS).to(v)
    if exact.dtype != v.dtype:
        short = scale.to(exact) * LEVELS < most
        scale = torch.where(short, scale * (1 + torch.finfo(v.dtype).eps), scale)
    return scale, exact / torch.where(scale > 0, scale, torch.ones_like(scale)).to(exact)


@dataclass(frozen=True)
class Sign:
    """A bit for a number, and their mean size; zero counts as positive."""

    def write(self, v: Tensor, key: Key) -> Written:
        """Packed bits."""
        return Written(bits.pack(v >= 0), v.abs().mean())

    def read(self, sent: Written, n: int) -> Tensor:
        """The mean size, up or down."""
        return torch.where(bits.unpack(sent.numbers, n), sent.scale, -sent.scale)
