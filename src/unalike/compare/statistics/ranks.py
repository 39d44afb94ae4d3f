"""Ranks of methods over conditions: Friedman's test and the critical difference of Nemenyi.

R_j      the mean rank of method j over N conditions, 1 the best; ties share a rank
chi^2    12 N / (k (k + 1)) sum_j (R_j - (k + 1) / 2)^2, over 1 - ties   (Friedman 1937)
F        (N - 1) chi^2 / (N (k - 1) - chi^2) with k - 1 and (k - 1)(N - 1) degrees of freedom
         (Iman and Davenport 1980)
CD       q sqrt(k (k + 1) / (6 N)): mean ranks this far apart differ; q is the studentized range's
         quantile over sqrt(2) (Nemenyi 1963; Demšar 2006, Statistical comparisons of classifiers)

It rewards a method that is ahead on many conditions, by however little. Conditions are treated as
draws from all that one might meet, which those of one dataset hardly are.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc

from unalike.compare.statistics.known import ALPHA, Array

CONDITIONS = 5  # the fewest that ranks are worth looking at


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
    mean = each.mean(0)
    counts = [np.unique(row, return_counts=True)[1] for row in each]
    ties = sum(float((c**3 - c).sum()) for c in counts) / (n * (k**3 - k))
    if ties >= 1:
        return Ranks(mean, 1.0, critical_difference(k, n))
    chi2 = 12 * n / (k * (k + 1)) * float(((mean - (k + 1) / 2) ** 2).sum()) / (1 - ties)
    rest = n * (k - 1) - chi2
    p = float(fdtrc(k - 1, (k - 1) * (n - 1), (n - 1) * chi2 / rest)) if rest > 1e-9 else 0.0
    return Ranks(mean, p, critical_difference(k, n))


@cache
def critical_difference(methods: int, conditions: int, alpha: float = ALPHA) -> float:
    """How far apart the mean ranks of two of so many methods must be.

    >>> round(critical_difference(4, 14), 3)
    1.254
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * conditions))
