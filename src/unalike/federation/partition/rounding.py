"""From expected counts to whole examples: largest remainders, with exact sums."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def round_columns(expected: Floats, class_sizes: Ints) -> Ints:
    """Expected counts [clients, classes] in whole numbers whose columns add up to the class sizes.

    Each entry is rounded down or up, by largest remainder within its class. Equal remainders are
    the rule in symmetric designs; there the client that is furthest behind goes first, so that
    client sizes stay even too.
    """
    expected = np.round(expected, 9)  # 2.9999999999 is a three that met floating point
    counts: Ints = np.floor(expected).astype(np.int64)
    remainder = np.round(expected - counts, 9)  # so that equal remainders compare equal
    behind = np.zeros(len(expected))
    for c, left in enumerate(class_sizes - counts.sum(axis=0)):
        behind += remainder[:, c]
        up = np.lexsort((-behind, -remainder[:, c]))[:left]
        counts[up, c] += 1
        behind[up] -= 1
    return counts


def truncate_columns(expected: Floats, class_sizes: Ints) -> Ints:
    """Expected counts rounded down, the last client taking the rest of every class."""
    counts: Ints = np.floor(np.round(expected, 9)).astype(np.int64)
    counts[-1] += class_sizes - counts.sum(axis=0)
    return counts


def settle_rows(counts: Ints, expected: Floats, sizes: Ints) -> Ints:
    """The table with client sizes ``sizes`` and unchanged columns, near the expected counts.

    One example of one class goes from a client with too many to one with too few, for as many
    pairs at once as there are; each pass shrinks the total gap, so it ends. A class that the taker
    should not have is used only when the giver holds no other.
    """
    counts = counts.copy()
    gap = counts.sum(axis=1) - sizes
    while gap.any():
        givers, takers = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
        pairs = min(len(givers), len(takers))
        givers, takers = givers[:pairs], takers[:pairs]
        gain = counts[givers] - expected[givers] - (counts[takers] - expected[takers])
        gain -= np.where(expected[takers] > 0, 0.0, expected.sum())
        gain[counts[givers] == 0] = -np.inf
        moved = gain.argmax(axis=1)
        counts[givers, moved] -= 1
        counts[takers, moved] += 1
        gap[givers] -= 1
        gap[takers] += 1
    return counts
