"""Client sizes that add up to the number of examples: equal, log-normal, or in given shares."""

import numpy as np

from unalike.federation.partition.rounding import Floats, Ints, round_columns


def even_sizes(total: int, clients: int) -> Ints:
    """Sizes that differ by at most one."""
    return total // clients + (np.arange(clients) < total % clients)


def apportion(total: int, shares: Floats) -> Ints:
    """Whole sizes in proportion to ``shares``, by largest remainder."""
    expected = (total * (shares / shares.sum()))[:, None]
    return round_columns(expected, np.array([total]))[:, 0]


def lognormal_shares(clients: int, spread: float, rng: np.random.Generator) -> Floats:
    """Shares, up to a factor, whose logarithms have standard deviation ``spread``."""
    logs = spread * rng.standard_normal(clients)
    shares: Floats = np.exp(logs - logs.max())  # the largest is 1, so nothing overflows
    return shares
