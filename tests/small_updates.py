"""Updates to compress, and one way through a codec."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unalike import channel, rng
from unalike.parts.compression.codec import Compressed

KEY = rng.key(3)


class Up(NamedTuple):
    """An upload."""

    delta: dict[str, Tensor]


def update(seed: int = 0, dtype: torch.dtype = torch.float32) -> Up:
    """Three leaves of 12, 5 and 3 numbers."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {"a": (3, 4), "b": (5,), "c": (3,)}
    return Up({k: torch.randn(s, generator=draw, dtype=dtype) for k, s in shapes.items()})


def flat(up: Up) -> np.ndarray:
    """All numbers of an upload."""
    return np.concatenate([x.numpy().reshape(-1) for x in up.delta.values()])


def sent(codec: Compressed, up: Any, memory: Any = None) -> tuple[Any, Any, int]:
    """(what the server uses, what is remembered, bytes)."""
    memory = codec.init(up) if memory is None else memory
    wire, after = codec.encode(up, memory, KEY)
    return codec.decode(wire), after, channel.size_bytes(wire)


def by_hand(at: list[int], n: int) -> str:
    """Golomb's code as text, one position after the other."""
    p, out, last = len(at) / n, "", -1
    b = max(0, 1 + math.floor(math.log2(math.log((math.sqrt(5) - 1) / 2) / math.log(1 - p))))
    for i in at:
        q, r = divmod(i - last - 1, 2**b)
        out += "1" * q + "0" + (format(r, f"0{b}b") if b else "")
        last = i
    return out
