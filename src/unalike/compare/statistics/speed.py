"""How soon methods reach a target: rounds, or bytes, compared by their ratio to the baseline's.

The logarithm of what was spent until the target is compared like scores, so that twice as fast and
half as fast count the same. A run that never reaches the target has spent its whole budget, which
is less than it would have needed. So no method is called faster that missed the target under some
seed, and none is called slower than a baseline that missed it; such claims have no p-value either.
For the same reason the interval of a ratio has only one end if one of the two missed the target,
and none if both did. A hundredth more or less is as good as none: a number that travels with every
message is more under each seed, which the surest test finds and nobody notices.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unalike.compare.statistics.claims import Claims, claims
from unalike.compare.statistics.differences import Design
from unalike.compare.statistics.known import Array, Flags

SAME = 1.01  # ratios nearer to one are equal
SHARE = 0.95  # of the baseline's best score, which is the target if none is given


class Speeds(NamedTuple):
    """By condition and method, shape (..., R, K) as claims have it; less than one is faster."""

    ratio: Array  # geometric mean over seeds
    low: Array  # nan where the baseline missed the target: the ratio may be any less
    high: Array  # nan where the method did: it may be any more
    p: Array  # corrected; nan where too few runs reached the target to claim what it speaks for
    outcome: NDArray[np.str_]


def speeds(spent: Array, reached: Flags, baseline: int, design: Design | None = None) -> Speeds:
    """Judge what was spent, shape (..., C, K, n), nan where a run is missing.

    Args:
        spent: Until the target was reached, or in all.
        reached: Whether it was.
        baseline: The method all others are compared with.
        design: How; by default as claims are tested.
    """
    margin = math.log(SAME)
    found: Claims = claims(np.log(spent), baseline, higher=False, design=design, margin=margin)
    always = np.asarray((reached | np.isnan(spent)).all(-1))
    if always.shape[-2] > 1:
        always = np.concatenate([always, np.all(always, -2, keepdims=True)], -2)
    theirs = always[..., baseline, None]
    allowed = {"win": always, "loss": theirs, "equal": always & theirs}
    outcome = found.outcome
    for claim, holds in allowed.items():
        outcome = np.where((outcome == claim) & ~holds, "open", outcome)
    low, high = found.corrected_interval()
    ratio, low, high = (np.exp(a) for a in (found.known.mean, low, high))
    low, high = np.where(theirs, low, np.nan), np.where(always, high, np.nan)
    p = np.where(outcome == found.outcome, found.corrected.p, np.nan)
    return Speeds(ratio, low, high, p, outcome)


def target(best: float, higher: bool = True, share: float = SHARE) -> float:
    """A share of the best score, or for a loss the best one divided by that share.

    Below zero a share is the larger number, so that it is the other way round.

    >>> round(target(0.8), 3), round(target(0.19, higher=False), 3), round(target(-0.19), 3)
    (0.76, 0.2, -0.2)
    """
    return best * share if higher == (best >= 0) else best / share
