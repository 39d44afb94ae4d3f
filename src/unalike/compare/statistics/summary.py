"""Mean, standard deviation and 95 % interval of one method's repetitions."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from unalike.compare.statistics.known import ALPHA
from unalike.compare.statistics.moderated import constant
from unalike.compare.statistics.reuse import Reuse


class Summary(NamedTuple):
    """Repetitions of one thing; with a single one there is no spread.

    There is no interval either, and none where all are equal: a spread of zero is no certainty.
    """

    n: int
    mean: float
    std: float | None
    low: float | None
    high: float | None


def summarise(values: Sequence[float], reuse: Reuse | None = None) -> Summary:
    """Student's interval, widened for rows that all repetitions share.

    >>> summarise([1.0, 2.0, 3.0]).std
    1.0
    """
    x, reuse = np.asarray(values, float), reuse or Reuse()
    if len(x) < 2:
        return Summary(len(x), float(x.mean()) if len(x) else math.nan, None, None, None)
    n, mean, std = len(x), float(x.mean()), float(x.std(ddof=1))
    if constant(x):
        mean, std = float(x[0]), 0.0
    variance = std**2 * (1 / n + reuse.ratio) + float(reuse.rows(x.mean()))
    if not variance:
        return Summary(n, mean, std, None, None)
    half = float(stdtrit(n - 1, 1 - ALPHA / 2)) * math.sqrt(variance)
    return Summary(n, mean, std, mean - half, mean + half)
