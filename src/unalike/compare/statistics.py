"""Statistics of paired repetitions: intervals, tests, corrections, effect sizes.

interval     mean ± t_{0.975, n-1} s / sqrt(n), or percentiles of the bootstrap's means
paired test  of the differences d, with mean m, standard deviation s and skewness g:
             t       sqrt(n) u, u = m / s                                          (Student)
             hall    sqrt(n) (u + g u^2 / 3 + g^2 u^3 / 27 + g / (6 n)), of which and t's p the
                     larger (Hall 1992, On the removal of skewness by transformation)
             wilcoxon   signed ranks
correction   Holm (1979): the i-th smallest of m p-values times m - i + 1, made monotone
effect size  d / s_d, Cohen's d for paired differences

Student's test holds its level where differences are symmetric, as those of a method with itself
are, and errs more often where they are skewed; ``docs/explanation-statistics.md`` has the rates.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Test = Literal["t", "hall", "wilcoxon"]
Interval = Literal["t", "bootstrap"]
Outcome = Literal["win", "tie", "loss"]

LEVEL = 0.95
ALPHA = 1 - LEVEL
RESAMPLES = 10_000


class Summary(NamedTuple):
    """Repetitions of one thing; with a single one there is no spread and no interval."""

    n: int
    mean: float
    std: float | None
    low: float | None
    high: float | None


class Paired(NamedTuple):
    """Differences to something else over the same seeds; positive means larger."""

    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    effect: float | None


def summarise(values: Sequence[float], kind: Interval = "t") -> Summary:
    """Mean, sample standard deviation and 95 % interval of the mean.

    >>> summarise([1.0, 2.0, 3.0]).std
    1.0
    """
    x = np.asarray(values, float)
    if len(x) < 2:
        return Summary(len(x), float(x.mean()) if len(x) else math.nan, None, None, None)
    low, high = _bootstrap(x) if kind == "bootstrap" else _student(x)
    return Summary(len(x), float(x.mean()), float(x.std(ddof=1)), low, high)


def paired(
    values: Sequence[float],
    others: Sequence[float],
    test: Test = "t",
    kind: Interval = "t",
) -> Paired:
    """Differences ``values - others``, which belong to the same seeds in the same order."""
    d = np.asarray(values, float) - np.asarray(others, float)
    if len(d) < 2:
        return Paired(len(d), float(d.mean()) if len(d) else math.nan, None, None, None, None)
    whole = summarise(d.tolist(), kind)
    p = _wilcoxon(d) if test == "wilcoxon" else float(p_values(d, test))
    effect = None if _constant(d) else whole.mean / float(d.std(ddof=1))
    return Paired(len(d), whole.mean, whole.low, whole.high, p, effect)


def p_values(d: NDArray[np.float64], test: Literal["t", "hall"] = "t") -> NDArray[np.float64]:
    """Two-sided p-values of differences along the last axis.

    Equal differences leave the test without a variance (small test sets make accuracies so coarse
    that this happens); then only their signs count, as in an exact permutation test.
    """
    n, mean = d.shape[-1], d.mean(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        u = mean / d.std(-1, ddof=1)
        p = 2 * stdtr(n - 1, -np.abs(u) * math.sqrt(n))
        if test == "hall":
            g = ((d - mean[..., None]) ** 3).mean(-1) / d.std(-1) ** 3
            t = math.sqrt(n) * (u + g * u**2 / 3 + g**2 * u**3 / 27 + g / (6 * n))
            p = np.maximum(p, 2 * stdtr(n - 1, -np.abs(t)))
    by_sign = np.where(np.abs(mean) < 1e-12, 1.0, 2.0 ** (1 - n))
    return np.where(_constant(d), by_sign, p)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values in the given order; None is not a test and takes no part.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    order = sorted((value, i) for i, value in enumerate(p) if value is not None)
    out: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, i) in enumerate(order):
        largest = max(largest, min(1.0, value * (len(order) - rank)))
        out[i] = largest
    return out


def outcome(difference: Paired, higher_is_better: bool = True) -> Outcome | None:
    """Win or loss if the interval holds no zero and p is small; else a tie.

    Of several differences, ``p`` should be the corrected one.
    """
    if difference.low is None or difference.high is None or difference.p is None:
        return None
    if difference.low <= 0 <= difference.high or difference.p >= ALPHA:
        return "tie"
    return "win" if (difference.mean > 0) == higher_is_better else "loss"


def least_p(n: int, test: Test) -> float:
    """The smallest p-value that ``n`` pairs can give at all."""
    return 2.0 ** (1 - n) if test == "wilcoxon" else 0.0


def _student(x: NDArray[np.float64]) -> tuple[float, float]:
    n = len(x)
    half = float(stdtrit(n - 1, 1 - ALPHA / 2)) * float(x.std(ddof=1)) / math.sqrt(n)
    return float(x.mean()) - half, float(x.mean()) + half


def _bootstrap(x: NDArray[np.float64]) -> tuple[float, float]:
    """Percentiles of resampled means; the same for the same numbers."""
    rng = np.random.default_rng(0)
    means = x[rng.integers(0, len(x), (RESAMPLES, len(x)))].mean(1)
    low, high = np.quantile(means, [ALPHA / 2, 1 - ALPHA / 2])
    return float(low), float(high)


def _wilcoxon(d: NDArray[np.float64]) -> float:
    from scipy.stats import wilcoxon  # a second to import

    if not np.abs(d).max() > 1e-12:
        return 1.0
    return float(wilcoxon(d).pvalue)


def _constant(d: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(np.ptp(d, -1) <= 1e-12 * np.maximum(1.0, np.abs(d).max(-1)))
