"""Claims that are made together.

correction   Holm (1979): the i-th smallest of m p-values times m - i + 1, made monotone; with
             weights w, in the order of p / w, p times the sum of the weights that are left over its
             own. The interval beside a corrected p has the level of its test, 1 - alpha / times, so
             that it holds zero where p says so.
best         a leader is ahead of every other method: an intersection of claims, refused if any of
             them is, so the largest p counts as it is (Berger 1982, intersection-union)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unalike.compare.statistics.known import Array


class Corrected(NamedTuple):
    """P-values after a correction, and by how much each was multiplied."""

    p: Array
    times: Array


def holm(p: ArrayLike, weight: ArrayLike = 1.0) -> Corrected:
    """Holm's correction along the last axis; nan is no test and takes no part.

    With weights, the share of alpha that each test has as long as none is rejected.

    >>> holm([0.01, 0.04, float("nan"), 0.03]).p.tolist()
    [0.03, 0.06, nan, 0.06]
    """
    raw = np.asarray(p, float)
    part = np.where(np.isnan(raw), 0.0, np.broadcast_to(weight, raw.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(raw / part, -1, kind="stable")  # nan comes last
    ranked, part = (np.take_along_axis(a, order, -1) for a in (raw, part))
    left = np.flip(np.cumsum(np.flip(part, -1), -1), -1)  # of alpha, once the former are rejected
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.maximum(np.where(part > 0, left / part, 1.0), 1.0)
        adjusted = np.maximum.accumulate(ranked * step, -1)
        times = np.where(ranked > 0, adjusted / ranked, step)
    back = np.empty_like(raw), np.empty_like(raw)
    for put, values in zip(back, (np.minimum(adjusted, 1.0), times), strict=True):
        np.put_along_axis(put, order, values, -1)
    return Corrected(*back)


def hardest(p: Array, own: Array) -> Array:
    """The p-value of being ahead of everybody: the largest but for one's own.

    Args:
        p: Of a leader's differences, by method; nan takes no part.
        own: The leader's number, of the shape of ``p`` without its last axis.
    """
    others = np.arange(p.shape[-1]) != own[..., None]
    counted = others & ~np.isnan(p)
    largest = np.where(counted, p, -np.inf).max(-1)
    return np.where(counted.any(-1), largest, np.nan)
