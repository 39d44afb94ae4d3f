"""Variance estimates that borrow from each other: one says little, all pairs say more.

With n seeds the variance s^2 of a paired difference has n - 1 degrees of freedom, and a t-test with
four needs a huge difference. Smyth (2004, Linear models and empirical Bayes methods, limma) takes
the true variances as draws around a common one,

    d0 s0^2 / sigma^2 ~ chi^2(d0),      s^2 / s0^2 ~ F(n - 1, d0)
    moderated: (d0 s0^2 + (n - 1) s^2) / (d0 + n - 1), with d0 + n - 1 degrees of freedom

d0 says how similar variances are; at 0 it is Student's test. Smyth plugs in estimates of d0 and s0,
which needs thousands of variances: with the few of a comparison it errs in up to 17 % of families.
Here both are integrated over their likelihood (Wright and Simon 2003 have the same model), d0 with
equal weights on a grid and common to all conditions, log s0 flat and apart for each condition. The
likelihood is that of the variances of all pairs of K methods. These share methods, and together
hold what K - 1 independent ones would (their mean is that of the analysis of variance), so each
counts 2 / K, or less if some methods are nearly the same: one over the sum of its squared
correlations with all pairs, which is K / 2 if methods have nothing in common. With two methods
there is nothing to learn from and Student's test remains.

Some pairs resemble no other: FedProx with a tiny weight hardly differs from FedAvg, a method that
collapses differs wildly. So some variances are taken as odd, of any size (log s^2 flat over a range
of 20), and the evidence for this in s^2 itself is the weight of Student's test. Whether they are
few or half of all is estimated together with d0: where variances are similar all borrow from each
other, where they are not, Student's test remains.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, logsumexp, polygamma, psi

from unalike.compare.statistics.known import Array, Flags

ALIKE, ODD = (  # d0 and the share of odd variances, in all combinations
    a.ravel() for a in np.meshgrid(2.0 * 4.0 ** np.arange(6), [0.01, 0.4], indexing="ij")
)
REACH, POINTS = 6.0, 13  # of the grid of log s0, in its standard deviations
FEWEST = 3  # methods
RANGE = 20.0  # of log s^2, if it is odd


class Sample(NamedTuple):
    """Differences over seeds, nan where one is missing: count, mean and variance of each."""

    n: Array
    mean: Array
    variance: Array  # nan with fewer than two seeds

    @property
    def df(self) -> Array:
        """Degrees of freedom of the variance."""
        return np.maximum(self.n - 1, 1)

    @property
    def part(self) -> Array:
        """The part of the variance that the mean over independent seeds keeps."""
        return 1 / np.maximum(self.n, 1)


def sample(d: Array) -> Sample:
    """Over the last axis."""
    there = ~np.isnan(d)
    n = there.sum(-1).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(there, d, 0.0).sum(-1) / n
        squares = np.where(there, d - mean[..., None], 0.0) ** 2
        variance = np.where(n > 1, squares.sum(-1) / (n - 1), np.nan)
    return Sample(n, mean, np.where(constant(d), 0.0, variance))


def constant(d: Array) -> Flags:
    """Whether differences are equal up to rounding; small test sets make them coarse."""
    there = ~np.isnan(d)
    most, least = (f(np.where(there, d, g), -1) for f, g in ((np.max, -np.inf), (np.min, np.inf)))
    size = np.max(np.where(there, np.abs(d), 0.0), -1)
    with np.errstate(invalid="ignore"):
        close = most - least <= 1e-12 * np.maximum(1.0, size)
    return np.asarray(close & (there.sum(-1) > 1))


class Prior(NamedTuple):
    """What is known of d0, of shape (..., 1, D, 1), and of s0^2 given d0, both (..., C, D, S)."""

    alike: Array  # weights of d0
    weight: Array  # of s0^2
    level: Array  # s0^2; zero if nothing was estimated


def learn(x: Array, alike: Array | None = None) -> Prior | None:
    """What all pairs of methods say about variances; None with fewer than three methods.

    Args:
        x: Values by condition, method and seed, shape (..., C, K, n), nan where missing.
        alike: Weights of d0 that were learnt elsewhere, if these values are not to speak of it.
    """
    if x.shape[-2] < FEWEST:
        return None
    i, j = np.triu_indices(x.shape[-2], 1)
    d = x[..., i, :] - x[..., j, :]
    found = sample(d)
    usable = found.variance > 0  # nan is not
    methods = (~np.isnan(x)).any(-1).sum(-1)
    each = np.where(usable, 1 / np.maximum(_company(d, found), methods[..., None] / 2), 0.0)
    s2, df = np.where(usable, found.variance, 1.0), found.df
    some = np.asarray(usable.any(-1))[..., None, None]
    total = np.where(some, each.sum(-1)[..., None, None], 1.0)
    unbiased = np.log(s2) - psi(df / 2) + np.log(df / 2)
    centre = (each * unbiased).sum(-1)[..., None, None] / total
    noise = (each * polygamma(1, df / 2)).sum(-1)[..., None, None] / total
    d0 = ALIKE[:, None]
    width = np.sqrt((noise + polygamma(1, d0 / 2)) / total)
    level = centre + psi(d0 / 2) - np.log(d0 / 2) + width * np.linspace(-REACH, REACH, POINTS)
    density = np.logaddexp(
        np.log1p(-ODD)[:, None] + _density(s2, df, np.exp(level)[..., None, :, :]),
        np.log(ODD / RANGE)[:, None],
    )
    likelihood = (each[..., None, None] * density).sum(-3)
    evidence = logsumexp(likelihood, -1) + np.log(width[..., 0])
    if alike is None:
        alike = evidence.sum(-2, keepdims=True)
        alike = np.exp(alike - logsumexp(alike, -1, keepdims=True))[..., None]
    weight = np.exp(likelihood - logsumexp(likelihood, -1, keepdims=True))
    return Prior(alike, weight, np.where(some, np.exp(level), 0.0))


def _company(d: Array, found: Sample) -> Array:
    """How many of the pairs each is one of: 1 + the sum of its squared correlations with others.

    These are freed of their bias, 1 / degrees of freedom where there is no correlation.
    """
    varies = found.variance > 0
    centred = np.where(np.isnan(d) | ~varies[..., None], 0.0, d - found.mean[..., None])
    length = np.sqrt((centred**2).sum(-1, keepdims=True))
    unit = centred / np.where(length > 0, length, 1.0)
    df = found.df[..., None]
    squared = (df * (unit @ unit.swapaxes(-1, -2)) ** 2 - 1) / np.maximum(df - 1, 1)
    both = varies[..., None] & varies[..., None, :] & ~np.eye(d.shape[-2], dtype=bool)
    return np.asarray(1 + np.where(both, squared, 0.0).sum(-1))


def _density(s2: Array, df: Array, level: Array) -> Array:
    """Of log s^2, by its last two axes for each d0 and s0^2: that of F."""
    d0, half = ALIKE[:, None], df[..., None, None] / 2
    ratio = 2 * half * s2[..., None, None] / (d0 * level)
    return np.asarray(
        half * np.log(ratio) - (half + d0 / 2) * np.log1p(ratio) - betaln(half, d0 / 2)
    )


def components(found: Sample, prior: Prior | None) -> tuple[Array, Array, Array]:
    """(weights, variances, degrees of freedom) of what each variance may be; last axis.

    Args:
        found: Differences by condition and method, shape (..., C, M).
        prior: What was learnt about these conditions; None is Student's case.
    """
    s2, df = found.variance[..., None], found.df[..., None]
    if prior is None:
        return np.ones_like(s2), s2, df
    flat = (*prior.weight.shape[:-2], 1, -1)  # the methods of a condition share its prior
    d0 = np.broadcast_to(ALIKE[:, None], prior.weight.shape).reshape(flat)
    level = prior.level.reshape(flat)
    weight = (prior.alike * prior.weight).reshape(flat)
    weight = np.broadcast_to(weight, (*s2.shape[:-1], weight.shape[-1]))
    odd = _odd(found, prior).reshape(weight.shape)
    variance = np.where(s2 == 0, 0.0, (d0 * level + df * s2) / (d0 + df))
    return (
        np.concatenate([weight * (1 - odd), (weight * odd).sum(-1, keepdims=True)], -1),
        np.concatenate([variance, s2], -1),
        np.concatenate([np.broadcast_to(d0 + df, variance.shape), df], -1),
    )


def _odd(found: Sample, prior: Prior) -> Array:
    """How surely each variance is like no other, for each d0 and s0^2; one that is zero is."""
    varies = (found.variance > 0)[..., None, None]
    s2 = np.where(found.variance > 0, found.variance, 1.0)
    level = np.where(prior.level > 0, prior.level, 1.0)[..., None, :, :]
    odd = ODD[:, None]
    usual = (1 - odd) * np.exp(_density(s2, found.df, level))
    return np.where(varies, odd / RANGE / (odd / RANGE + usual), 1.0)
