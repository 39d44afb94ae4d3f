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
    most = 64 if narrow else 32
    k = most if channels < 16 else min(most, channels & -channels)
    n = power(columns, 16, 128)
    return Blocks(128, n, k, 8 if n == 128 else 4, 3)


def gradient(k: int, columns: int, narrow: bool) -> Blocks:
    """For (taps and channels) x columns along output pixels."""
    n = power(columns, 16, 128)
    return Blocks(64 if narrow else 32, n, power(k, 16, 128), 8 if n == 128 else 4, 3)


def parts(rows: int, block: int, programs: int) -> int:
    """How many rows one program adds up, a multiple of ``block``, so that enough programs run."""
    wanted = -(-PROGRAMS // programs)
    most = max(1, rows // (8 * block))
    return -(-rows // (min(wanted, most) * block)) * block


def doubled(columns: int, wide: int, plain: bool) -> int:
    """Into how many neighbours output pixels are joined along a row: their taps overlap.

    Pairs of pixels share all but one column of their taps, so the input is read from the cache
    less often than that costs in zeros. It pays where there are few output channels.
    """
    return 2 if plain and wide % 2 == 0 and columns <= 64 else 1


def pooled(channels: int) -> int:
    """How many pixels a program takes together with that many channels."""
    return max(16, 2048 // channels)
