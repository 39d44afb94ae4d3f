"""Splittable random numbers: a key is a 64-bit integer tensor, a draw is a pure function of it.

PyTorch's generators are stateful, so a client would see different noise alone, inside vmap, and on
another machine. SplitMix64 (Steele et al. 2014) on int64 tensors gives one answer everywhere.
Every purpose has its own named stream, so that changing one thing moves nothing else.
"""

import math
from collections.abc import Callable
from enum import IntEnum, unique
from typing import Literal
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

Key = Tensor
Purpose = Literal[
    "cohort",
    "batches",
    "init",
    "noise",
    "faults",
    "attack",
    "server",
    "survey",
    "evaluation",
    "clock",
]


@unique
class Stream(IntEnum):
    """What is folded into the key of a step, or of a server's round, for one kind of draw.

    The numbers are part of every published result: a new name takes a new number.
    """

    CHAIN_START = -1  # where a chain begins
    DROPOUT = 0
    TRANSFORM = 1
    METHOD = 2  # a method's own draw
    CHAIN = 3  # and one number more for every further step of a chain
    TRAINING = 9  # an autoencoder's latent variables while it trains,
    JUDGING = 10  # while it is judged,
    LATENTS = 11  # and while they are measured
    RELEASE = 12  # noise that a server adds
    DOWNLOAD = 13  # and while a server compresses what it sends
    NEIGHBOURS = 14  # or a node what it tells its neighbours
    PRETEXT = 21  # the labels of a pretext task


@unique
class ClientStream(IntEnum):
    """The same for the key of a client in a round; the numbers of a step stay free for a method."""

    BATCHES = -1
    MODEL = 7  # a model that a method begins afresh
    CHANNEL = 11


SCARCE = 50  # how many times a sample are so many that drawing it twice finds enough of them
PART = 1 << 16  # numbers that are drawn at once: more would not stay in a cache
GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
MULTIPLIERS = -4658895280553007687, -7723592293110705685


def _shift(z: Tensor, n: int) -> Tensor:
    """The logical right shift; PyTorch's is arithmetic."""
    return (z >> n) & ((1 << (64 - n)) - 1)


def _signed(n: int) -> int:
    """The number of 64 bits that ``n`` wraps around to."""
    return (n + 2**63) % 2**64 - 2**63


def mixed(z: Tensor) -> Tensor:
    """SplitMix64's finalizer."""
    z = (z ^ _shift(z, 30)) * MULTIPLIERS[0]
    z = (z ^ _shift(z, 27)) * MULTIPLIERS[1]
    return z ^ _shift(z, 31)


def key(seed: int) -> Key:
    """The root key of a seed."""
    return mixed(torch.tensor(seed, dtype=torch.int64) + GOLDEN)


def fold_in(k: Key, data: int | Tensor) -> Key:
    """A new key from a key and a number (a round, a client, a step); broadcasts over both."""
    if isinstance(data, int):  # stays a number: a tensor would have to travel to the device
        return mixed(k + _signed((data + 1) * GOLDEN))
    return mixed(k + (data.to(k.device, torch.int64) + 1) * GOLDEN)


def stream(seed: int, purpose: Purpose) -> Key:
    """The root of one named stream of a seed."""
    return fold_in(key(seed), crc32(purpose.encode()))


def client(root: Key, t: int, ids: int | Tensor) -> Key:
    """The key of a client in a round: the same alone, in a cohort, or on another machine."""
    return fold_in(fold_in(root, t), ids)


def bits(k: Key, n: int, start: int = 0) -> Tensor:
    """``n`` random 64-bit integers for each key, those from ``start`` on: shape [*k.shape, n]."""
    counter = torch.arange(start + 1, start + n + 1, device=k.device)
    return mixed(mixed(k)[..., None] + counter * GOLDEN)


def uniform(k: Key, *shape: int) -> Tensor:
    """Uniform numbers in [0, 1) with 24 random bits, from one key."""
    return _in_parts(lambda start, n: _unit(k, n, start), k, shape)


def _unit(k: Key, n: int, start: int) -> Tensor:
    return _shift(bits(k, n, start), 40).float() * 2**-24


def _in_parts(draw: Callable[[int, int], Tensor], k: Key, shape: tuple[int, ...]) -> Tensor:
    """Some at a time on a CPU: integers of 64 bits take ten times the memory of the numbers."""
    n = math.prod(shape)
    if n <= PART or k.device.type != "cpu":
        return draw(0, n).reshape(shape)
    return torch.cat([draw(at, min(PART, n - at)) for at in range(0, n, PART)]).reshape(shape)


def normal(k: Key, *shape: int) -> Tensor:
    """Standard normal numbers by the Box-Muller transform, from one key."""
    one, other = fold_in(k, 0), fold_in(k, 1)

    def draw(start: int, n: int) -> Tensor:
        u, v = _unit(one, n, start), _unit(other, n, start)
        return torch.sqrt(-2 * torch.log1p(-u)) * torch.cos(2 * math.pi * v)

    return _in_parts(draw, k, shape)


def permutation(k: Key, n: int) -> Tensor:
    """A random order of 0..n-1; 64-bit sort keys make ties a matter of 2**-64."""
    return torch.argsort(bits(k, n))


def sample(k: Key, n: int, m: int) -> Tensor:
    """``m`` different numbers below ``n``, in their order, all sets equally probable.

    The first of a permutation; of very many they are drawn one by one until ``m`` differ, which
    costs what the sample costs.
    """
    if m == n:
        return torch.arange(n, device=k.device)
    if n < SCARCE * max(m, 1000):
        return permutation(k, n)[:m].sort().values
    drawn, first = np.unique(_shift(bits(k, 2 * m), 1).numpy() % n, return_index=True)
    return torch.from_numpy(np.sort(drawn[np.argsort(first)[:m]]))
