"""Ranks of methods over conditions: Friedman's test and the critical difference of Nemenyi.

R_j      the mean rank of method j over N conditions, 1 the best; ties share a rank
p        Friedman (1937): the chance that mean ranks are as unlike, by sum_j (R_j - (k + 1) / 2)^2,
         if any order of a condition's ranks is as likely. It is counted over DRAWS orders, because
         the usual distributions of it are for more conditions than most comparisons have: for two
         methods on five conditions F (Iman and Davenport 1980) says 0 where 0.0625 is right.
CD       q sqrt(k (k + 1) / (6 N)): mean ranks this far apart differ; q is the studentized range's
         quantile over sqrt(2) (Nemenyi 1963; Demšar 2006, Statistical comparisons of classifiers)

It rewards a method that is ahead on many conditions, by however little. Conditions are treated as
draws from all that one might meet, which those of one dataset hardly are.
"""

import math
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unalike.compare.statistics.known import ALPHA, Array

CONDITIONS = 5  # the fewest that ranks are worth looking at
DRAWS = 9_999


class Ranks(NamedTuple):
    """Mean ranks in the order of the methods, and how far apart they must be."""

    mean: Array
    p: float
    apart: float  # the critical difference

    def groups(self) -> list[list[int]]:
        """Methods, best first, of which none differs from another; contained groups are left out.

        >>> Ranks(np.array([3.0, 1.0, 1.8, 2.2]), 0.01, 1.0).groups()
        [[1, 2], [2, 3], [3, 0]]
        """
        order = np.argsort(self.mean, kind="stable")
        out: list[list[int]] = []
        end = 0
        for i, first in enumerate(order):
            last = i
            while (
                last + 1 < len(order) and self.mean[order[last + 1]] - self.mean[first] < self.apart
            ):
                last += 1
            if last > i and last >= end:
                out.append(order[i : last + 1].tolist())
                end = last + 1
        return out


def ranks(scores: Array, higher: bool = True) -> Ranks:
    """Of mean scores by condition and method."""
    from scipy.stats import rankdata  # a second to import

    n, k = scores.shape
    each = rankdata(-scores if higher else scores, axis=-1)
    return Ranks(each.mean(0), _friedman(each), critical_difference(k, n))


def _friedman(each: Array) -> float:
    """The chance that mean ranks are as unlike."""
    orders = _orders(*each.shape)
    sums = sum(ranked[order] for ranked, order in zip(each, orders, strict=True))
    own = each.sum(0).var()
    return float((1 + (np.asarray(sums).var(-1) >= own - 1e-9).sum()) / (1 + DRAWS))


@lru_cache(maxsize=4)  # a live report asks again and again
def _orders(conditions: int, methods: int) -> NDArray[np.int16]:
    """Random orders of the methods for each condition and draw, the same every time."""
    draws = np.random.default_rng(0).random((conditions, DRAWS, methods), np.float32)
    return draws.argsort(-1).astype(np.int16)


@cache
def critical_difference(methods: int, conditions: int, alpha: float = ALPHA) -> float:
    """How far apart the mean ranks of two of so many methods must be.

    >>> round(critical_difference(4, 14), 3)
    1.254
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * conditions))
