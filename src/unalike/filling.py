"""The numbers of ``rng`` for weights: the same to the bit, in less than half of the time on a CPU.

``rng`` consists of tensor operations, so that vmap, tracers and compilers can see inside it. The
initial weights of a model do not need that. Here they are two opaque operators that work on numbers
that stay in a cache: NumPy shifts unsigned integers, and the counters that are folded into a key
are the same for all keys.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike import rng
from unalike.kernels import registry
from unalike.rng import Key

PIECE = rng.PART  # numbers that are drawn at once
_UNIT = 2.0**-24
_FIRST, _SECOND = (np.uint64(m % 2**64) for m in rng.MULTIPLIERS)


def uniform(k: Key, *shape: int) -> Tensor:
    """As ``rng.uniform``."""
    if k.device.type != "cpu":
        return rng.uniform(k, *shape)
    return _uniform(k, math.prod(shape)).reshape(shape)


def normal(k: Key, *shape: int) -> Tensor:
    """As ``rng.normal``."""
    if k.device.type != "cpu":
        return rng.normal(k, *shape)
    return _normal(k, math.prod(shape)).reshape(shape)


@registry.operator("uniform", "(Tensor keys, int n) -> Tensor")
def _uniform(keys: Key, n: int) -> Tensor:
    """``n`` numbers for each key: [*keys.shape, n]."""
    out, draw = _empty(keys.numel(), n), _Units(keys, n)
    for rows, columns in _pieces(*out.shape):
        draw(rows, columns, _UNIT, out[rows, columns])
    return out.view(*keys.shape, n)


@registry.operator("normal", "(Tensor keys, int n) -> Tensor")
def _normal(keys: Key, n: int) -> Tensor:
    """``n`` numbers for each key, by the Box-Muller transform."""
    out = _empty(keys.numel(), n)
    one, other = (_Units(rng.fold_in(keys, i), n) for i in range(2))
    # A sign and powers of two are exact, so they may be factors of the integers already.
    turn = float(np.float32(2 * math.pi)) * _UNIT
    angles = _empty(min(PIECE, out.numel()))
    for rows, columns in _pieces(*out.shape):
        length = one(rows, columns, -_UNIT, out[rows, columns]).log1p_().mul_(-2).sqrt_()
        angle = angles[: length.numel()].view_as(length)
        length.mul_(other(rows, columns, turn, angle).cos_())
    return out.view(*keys.shape, n)


def _empty(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32)  # whatever a user's module made the usual type


def _fake(keys: Key, n: int) -> Tensor:
    return keys.new_empty(*keys.shape, n, dtype=torch.float32)


def _mapped(op: Any) -> Any:
    def rule(info: Any, dims: tuple[int | None, None], keys: Key, n: int) -> tuple[Tensor, int]:
        assert dims[0] is not None, "nothing else can be mapped"
        return op(keys.movedim(dims[0], 0), n), 0

    return rule


for _op, _name in ((_uniform, "uniform"), (_normal, "normal")):
    registry.fake(_name)(_fake)
    registry.mapped(_op, _mapped(_op))


def _pieces(keys: int, n: int) -> Iterator[tuple[slice, slice]]:
    """Several whole rows at once, or a part of one."""
    rows = max(1, PIECE // max(n, 1))
    for i in range(0, keys, rows):
        for j in range(0, n, PIECE):
            yield slice(i, min(i + rows, keys)), slice(j, min(j + PIECE, n))


class _Units:
    """Integers below 2**24, as ``rng.uniform`` has them."""

    def __init__(self, keys: Key, n: int) -> None:
        self.keys = rng.mixed(keys).reshape(-1, 1).numpy().view(np.uint64)
        most = min(PIECE, n * keys.numel())
        self.z, self.shifted = np.empty(most, np.uint64), np.empty(most, np.uint64)

    def __call__(self, rows: slice, columns: slice, unit: float, out: Tensor) -> Tensor:
        """Those of some keys, times a number."""
        keys, counters = self.keys[rows], _counters()[: columns.stop - columns.start]
        shape = len(keys), len(counters)
        z, shifted = (x[: math.prod(shape)].reshape(shape) for x in (self.z, self.shifted))
        np.add(keys + np.uint64(columns.start * rng.GOLDEN % 2**64), counters, out=z)
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            np.right_shift(z, np.uint64(shift), out=shifted)
            np.bitwise_xor(z, shifted, out=z)
            np.multiply(z, factor, out=z)
        # The last step of SplitMix64 leaves the upper 31 bits as they are.
        np.right_shift(z, np.uint64(40), out=z)
        return out.copy_(torch.from_numpy(z.view(np.int64))).mul_(unit)


@cache
def _counters() -> np.ndarray:
    return np.arange(1, PIECE + 1, dtype=np.uint64) * np.uint64(rng.GOLDEN % 2**64)
