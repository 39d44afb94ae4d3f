"""How the work of a kernel is cut up: a fixed function of shapes, so that a run can be repeated.

Trying block sizes out on the device would be a little faster for odd shapes, but two runs could
choose differently and would then differ in rounding. The numbers were found on one H200.
"""

from typing import NamedTuple

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


def correlation(channels: int, columns: int, narrow: bool) -> Blocks:
    """For output pixels x columns along taps and channels; ``narrow`` numbers have 16 bits."""
    even = channels & -channels  # the largest power of two that divides them
    if even < 16:
        return Blocks(128, power(columns, 16, 64), 32, 4, 1)
    k = min(even, 64 if narrow else 32)
    return Blocks(128, power(columns, 16, 128 if narrow else 64), k, 4, 3)


def gradient(k: int, columns: int, narrow: bool) -> Blocks:
    """For (taps and channels) x columns along output pixels."""
    n = power(columns, 16, 64)
    if k <= 32:
        return Blocks(64, n, power(k, 16, 32), 2, 1)
    if narrow:
        return Blocks(128, n, power(k, 64, 128), 4, 2)
    return Blocks(64, n, 64, 2, 2)  # two warps: with four the operands would be transposed slowly


def share(rows: int, block: int, programs: int) -> int:
    """How many rows one program adds up, a multiple of ``block``, so that enough programs run."""
    wanted = -(-PROGRAMS // programs)
    most = max(1, rows // (8 * block))
    return -(-rows // (min(wanted, most) * block)) * block


def joined(outputs: int, wide: int, plain: bool) -> int:
    """How many neighbouring output pixels make up one row of a product: their taps overlap.

    Two share all but one column of their taps, so the input is read less often, which is worth
    the added zeros where there are few output channels.
    """
    return 2 if plain and wide % 2 == 0 and outputs <= 32 else 1


def pooled(channels: int) -> int:
    """How many pixels a program takes together with that many channels."""
    return max(16, 2048 // channels)
