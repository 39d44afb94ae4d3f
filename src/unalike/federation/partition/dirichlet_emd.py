"""The EMD of Dirichlet draws: what it is on average, and the draw that has a wanted one.

Dir_K(a) per class:   mean weighted EMD by simulation;  sup = 2 (1 - 1/K)(1 - 1/M) as a -> 0
Dir(a_1..a_M) mixes:  E sum_c |q_c - p_c|,  q_c ~ Beta(a_c, A - a_c),  A = sum a,  p = a/A, where
                      E|X - mean| = 2 a^a b^b / (B(a, b) (a + b)^(a + b + 1))  for X ~ Beta(a, b)

One vector of uniform numbers u gives a Dirichlet draw for every concentration: gamma quantiles of
u, divided by their sum. So a draw is brought to a wanted EMD by moving its concentration, while
what is random in it stays as it is.
"""

from collections.abc import Callable
from functools import lru_cache
from math import exp, lgamma, log, pi, sqrt

import numpy as np

from unalike.federation.partition.rounding import Floats, Ints

ALPHA_RANGE = (1e-6, 1e6)
VARIATES = 400_000  # per simulated mean: its standard error is then below 0.001
MANY = 2000  # clients from which on the mean does not change by more than that
CLOSE = 1e-3  # accepted distance of a draw from the wanted EMD


def emd_dirichlet_supremum(clients: int, classes: int) -> float:
    """The mean EMD that a per-class Dirichlet tends to, but does not reach, as alpha falls to 0."""
    return 2 * (1 - 1 / clients) * (1 - 1 / classes)


@lru_cache(maxsize=4096)
def emd_dirichlet(alpha: float, clients: int, classes: int, seed: int = 0) -> float:
    """Mean weighted EMD of a per-class Dirichlet with equal classes, by simulation.

    Two sums of squares with known means serve as control variates: the estimate is the intercept
    of a regression on their deviations, 2 to 7 times as accurate as the plain mean.
    """
    clients = min(clients, MANY)
    rng = np.random.default_rng(seed)
    draws = max(8, VARIATES // (clients * classes))
    s = rng.dirichlet(np.full(clients, alpha), (draws, classes))  # [draws, classes, clients]
    mean = s.mean(axis=1)
    # With n_kc = s_ck N/M:  (n_k/N) |p_k(c) - 1/M|  =  |s_ck - mean_c s_ck| / M.
    distance = np.abs(s - mean[:, None]).sum(axis=(1, 2)) / classes
    variance = (1 - 1 / clients) / clients / (clients * alpha + 1)  # of one s_ck
    squares = np.square(s).sum(axis=(1, 2)) - clients * classes * (variance + clients**-2)
    pooled = np.square(mean).sum(axis=1) - clients * (variance / classes + clients**-2)
    controls = np.column_stack([np.ones(draws), squares, pooled])
    return float(np.linalg.lstsq(controls, distance, rcond=None)[0][0])


def emd_of_mixes(concentration: Floats) -> float:
    """Mean L1 distance of a Dirichlet's mixes from their mean.

    >>> round(emd_of_mixes(np.full(10, 0.5)), 4), round(emd_of_mixes(np.full(10, 50.0)), 4)
    (0.9165, 0.1069)
    """
    total = float(concentration.sum())
    return sum(_beta_deviation(float(a), total - float(a)) for a in concentration)


def _beta_deviation(a: float, b: float) -> float:
    """The mean distance of Beta(a, b) from its mean."""
    if a <= 0 or b <= 0:
        return 0.0
    total = a + b
    if total > 1e6:  # the terms below would cancel; by now it is a normal distribution
        return sqrt(2 / pi * a * b / (total + 1)) / total
    log_beta = lgamma(a) + lgamma(b) - lgamma(total)
    return 2 * exp(a * log(a) + b * log(b) - log_beta - (total + 1) * log(total))


def dirichlet_at(concentration: Floats, u: Floats) -> Floats:
    """The Dirichlet draws, one per row of the uniform numbers ``u``, at a concentration."""
    from scipy.special import gammaincinv, gammaln, softmax

    with np.errstate(divide="ignore"):
        logs = np.log(gammaincinv(concentration, u))
    # Below about 1e-300 the quantile underflows, and its series has a single term.
    tiny = (np.log(u) + gammaln(concentration + 1)) / concentration
    draws: Floats = softmax(np.where(np.isfinite(logs), logs, tiny), axis=-1)
    return draws


def emd_of_table(table: Ints) -> float:
    """Weighted EMD of counts by client and class, in which clients may be empty."""
    total = table.sum()
    pooled = table.sum(axis=0) / total
    return float(np.abs(table - np.outer(table.sum(axis=1), pooled)).sum() / total)


def brought_to(target: float, build: Callable[[float], Ints]) -> tuple[Ints, float]:
    """The table with an EMD nearest to the target over concentrations, and its EMD.

    ``build`` gives the table at a concentration, from the same random numbers every time, so that
    its EMD falls as the concentration grows, but for steps of whole examples.
    """
    low, high = (log(a) for a in ALPHA_RANGE)
    found = [build(exp(low)), build(exp(high))]
    reached = [emd_of_table(table) for table in found]
    while high - low > 1e-4 and reached[0] >= target >= reached[1]:
        if min(abs(emd - target) for emd in reached) <= CLOSE:
            break
        middle = (low + high) / 2
        found.append(build(exp(middle)))
        reached.append(emd_of_table(found[-1]))
        low, high = (middle, high) if reached[-1] > target else (low, middle)
    best = int(np.argmin([abs(emd - target) for emd in reached]))
    return found[best], reached[best]
