"""Which entries of an update travel, and how the server learns where they belong.

top-k:        the k entries of largest size, with their positions
random mask:  k entries drawn from a seed, which travels instead of the positions
              (Konecny et al. 2016, section 3)
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from unalike import rng
from unalike.parts.compression import bits, golomb
from unalike.rng import Key


class Select(Protocol):
    """A rule for k of the n entries of a vector."""

    def count(self, n: int) -> int:
        """How many of ``n`` travel."""
        ...

    def gain(self, n: int) -> float:
        """What entries are multiplied by where nothing is remembered."""
        ...

    def pick(self, v: Tensor, key: Key) -> tuple[Tensor, Any]:
        """(the positions that travel, what is sent to tell them)."""
        ...

    def read(self, sent: Any, n: int) -> Tensor:
        """The positions from what was sent."""
        ...


@dataclass(frozen=True)
class _Share:
    share: float

    def count(self, n: int) -> int:
        """max(1, floor(share n)); the guard keeps 0.29 x 100 from becoming 28."""
        return max(1, int(self.share * n + 1e-9))


@dataclass(frozen=True)
class TopK(_Share):
    """The entries of largest size; positions in whole bytes, or in a Golomb code."""

    code: Literal["bytes", "golomb"] = "bytes"

    def gain(self, n: int) -> float:
        """As they are."""
        return 1.0

    def pick(self, v: Tensor, key: Key) -> tuple[Tensor, Any]:
        """Ascending positions; a number that is not finite is among them."""
        size = torch.nan_to_num(v.abs(), nan=torch.inf)
        at = torch.topk(size, self.count(len(v)), sorted=False).indices.sort().values
        return at, (bits.write if self.code == "bytes" else golomb.write)(at, len(v))

    def read(self, sent: Any, n: int) -> Tensor:
        """From bytes or code."""
        return bits.read(sent) if self.code == "bytes" else golomb.read(sent, self.count(n), n)


@dataclass(frozen=True)
class RandomMask(_Share):
    """Entries drawn again for every message.

    The seed is half of a key: from a whole one the client's other draws could be worked out.
    """

    def gain(self, n: int) -> float:
        """n / k, so that the mean over all masks is the update."""
        return n / self.count(n)

    def pick(self, v: Tensor, key: Key) -> tuple[Tensor, Any]:
        """From a seed of four bytes."""
        seed = (rng.fold_in(key, rng.Stream.METHOD) & 0x7FFFFFFF).to(torch.int32)
        return self.read(seed, len(v)), seed

    def read(self, sent: Any, n: int) -> Tensor:
        """The same draw again."""
        return rng.permutation(rng.fold_in(sent.to(torch.int64), n), n)[: self.count(n)]
