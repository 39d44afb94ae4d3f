"""How the work of a kernel is cut up: a fixed function of shapes, so that a run can be repeated.

Trying block sizes out on the device would be a little faster for odd shapes, but two runs could
choose differently and would then differ in rounding. The numbers were found on one H200.
"""

from typing import Literal, NamedTuple

Kind = Literal["narrow", "rounded", "exact"]  # 16 bits, TF32, three products of TF32
PROGRAMS = 1024  # enough to keep every multiprocessor of a large GPU busy to the end


class Blocks(NamedTuple):
    """Sizes of the blocks of a product: rows m, columns n, along k; warps and pipeline stages."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


def power(n: int, least: int, most: int) -> int:
    """The smallest power of two that is at least n, within limits.

    >>> power(20, 16, 128)
    32
    """
    return max(least, min(most, 1 << (n - 1).bit_length()))


def correlation(channels: int, columns: int, kind: Kind) -> Blocks:
    """For output pixels x columns along taps and channels."""
    even = channels & -channels  # the largest power of two that divides them
    if even < 16:
        return Blocks(128, power(columns, 16, 64), 32, 4, 1)
    if kind == "exact":
        return Blocks(64, power(columns, 16, 64), min(even, 32), 4, 3)
    n = power(columns, 16, 128)
    k = min(even, 64 if kind == "narrow" and n < 128 else 32)
    return Blocks(128, n, k, 4, 4 if kind == "narrow" and k < 64 else 3)


def gradient(k: int, columns: int, kind: Kind) -> Blocks:
    """For (taps and channels) x columns along output pixels."""
    n = power(columns, 16, 64)
    if kind == "exact":
        return Blocks(32, n, power(k, 16, 32), 2, 3)
    if k <= 32:
        return Blocks(128, n, power(k, 16, 32), 2, 1)
    if kind == "narrow":
        return Blocks(128, n, 64, 4, 3)
    # Two warps: with four, Triton would transpose numbers of 32 bits for the tensor units.
    return Blocks(32, n, 64, 2, 4)


def share(rows: int, block: int, programs: int) -> int:
    """How many rows one program adds up, a multiple of ``block``, so that enough programs run."""
    wanted = -(-PROGRAMS // programs)
    most = max(1, rows // (8 * block))
    return -(-rows // (min(wanted, most) * block)) * block


def joined(outputs: int, most: int, wide: int, plain: bool) -> int:
    """How many neighbouring output pixels make up one row of a product: their taps overlap.

    Two share all but one column of their taps, so the input is read less often, which is worth
    the added zeros where there are few output channels. ``plain``: one group, no strides.
    """
    return 2 if plain and wide % 2 == 0 and outputs <= most else 1


def pooled(channels: int) -> int:
    """How many pixels a program takes together with that many channels."""
    return max(16, 2048 // channels)


NARROW = Blocks(16, 32, 64, 4, 3)  # few rows x outputs along inputs
ROUNDED = Blocks(64, 64, 64, 4, 4)  # rows x outputs along inputs, of weights that are rounded


def step(rows: int, width: int) -> Blocks:
    """For outputs x inputs along few rows of numbers of so many bytes, added to weights."""
    k = power(rows, 16, 64)
    if width == 2:
        return Blocks(64, 64, k, 4, 1)
    return Blocks(16 if rows <= 16 else 32, 128, k, 4, 1)
