"""A single comparison of two methods over the same seeds: Student's paired test."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from unalike.compare.statistics.differences import Design, Test, Values
from unalike.compare.statistics.known import ALPHA
from unalike.compare.statistics.reuse import Reuse

Outcome = Literal["win", "loss", "equal", "open"]


class Paired(NamedTuple):
    """Differences from something else over the same seeds; positive means larger."""

    n: int
    mean: float
    low: float | None  # none with one seed, or if all seeds say the same but zero
    high: float | None
    p: float | None
    effect: float | None  # Cohen's d of paired differences: their mean over their deviation


def paired(
    values: Sequence[float],
    others: Sequence[float],
    test: Test = "t",
    reuse: Reuse | None = None,
    alpha: float = ALPHA,
) -> Paired:
    """Differences ``values - others``, which belong to the same seeds in the same order.

    The interval is of the level 1 - alpha: less than usual where several are to hold at once.
    """
    x = np.array([others, values], float)[None]
    if x.shape[-1] < 2:
        mean = float((x[0, 1] - x[0, 0]).mean()) if x.shape[-1] else math.nan
        return Paired(x.shape[-1], mean, None, None, None, None)
    found, known = Values(x, Design(test, (reuse or Reuse(),))).against(0)
    mean, half = float(known.mean[0, 1]), float(known.half(alpha)[0, 1])
    low, high = (mean - half, mean + half) if half or not mean else (None, None)
    s = math.sqrt(found.variance[0, 1])
    effect = mean / s if s else None
    return Paired(x.shape[-1], mean, low, high, float(known.p()[0, 1]), effect)


def outcome(difference: Paired, higher: bool = True) -> Outcome | None:
    """Win or loss if p is small; without a margin nothing else is shown."""
    if difference.p is None:
        return None
    if difference.p >= ALPHA:
        return "open"
    return "win" if (difference.mean > 0) == higher else "loss"
