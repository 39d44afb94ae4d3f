"""Differences from a baseline over the same seeds, and what is known about each.

moderated   Student's t with variances that learn from each other (``moderated.py``)
t           sqrt(n) u, u = m / s, of the differences' mean m and standard deviation s   (Student)
hall        sqrt(n) (u + g u^2 / 3 + g^2 u^3 / 27 + g / (6 n)) with their skewness g, of which and
            t's p the larger (Hall 1992, On the removal of skewness by transformation)
wilcoxon    signed ranks, of which and t's p the larger

All but the last two are t-tests with another variance; ``reuse.py`` has what is added to it for
rows that all seeds share. Equal differences leave a test without a variance (small test sets make
accuracies so coarse that this happens); then only their signs count, as in an exact permutation
test.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr

from unalike.compare.statistics.known import Array, Known, Numbers
from unalike.compare.statistics.moderated import (
    Prior,
    Sample,
    components,
    constant,
    learn,
    sample,
)
from unalike.compare.statistics.reuse import Reuse

Test = Literal["moderated", "t", "hall", "wilcoxon"]


@dataclass(frozen=True)
class Design:
    """How conditions are tested."""

    test: Test = "moderated"
    reuse: Sequence[Reuse] = (Reuse(),)  # of each condition
    sources: Sequence[Hashable] = ()  # whose rows each condition has; if unset, all have the same

    def kept(self, rows: Array) -> Array:
        """The rows' own variance in a mean over the conditions, at most; axis -2 is theirs.

        Chances of the same rows may agree under all conditions, so that their standard deviations
        add up; those of other rows are independent, so that variances do.
        """
        n, own = len(self.reuse), list(self.sources) or [0] * len(self.reuse)
        deviation = np.sqrt(rows) / n
        each = [
            deviation[..., [own[c] == source for c in range(n)], :].sum(-2, keepdims=True) ** 2
            for source in dict.fromkeys(own)
        ]
        return np.asarray(sum(each))


class Differences(NamedTuple):
    """By condition and method, shape (..., C, K); the baseline's own are zero."""

    sample: Sample
    known: Known


class Values:
    """Values by condition, method and seed, shape (..., C, K, n), nan where one is missing."""

    def __init__(self, x: Array, design: Design) -> None:
        """Estimates variances, if the test needs it."""
        self.x, self.design = x, design
        self.prior = learn(x) if design.test == "moderated" else None

    def against(self, base: Numbers | int) -> Differences:
        """Differences from the method of this number, or of one number for each condition."""
        d, other = _differences(self.x, base)
        found = sample(d)
        ratio = np.array([r.ratio for r in self.design.reuse])[:, None]
        rows = self._rows(d, other)
        return _judged(d, found, self.design.test, self.prior, found.part + ratio, rows)

    def overall(self, base: Numbers | int) -> Differences:
        """The same of means over the conditions, shape (..., 1, K), where a seed has all of them.

        Rows that conditions share do not average out, see ``Design.kept``.
        """
        mean = self.x.mean(-3, keepdims=True)
        prior = None if self.prior is None else learn(mean, self.prior.alike)
        d, _ = _differences(mean, base)
        found = sample(d)
        each, other = _differences(self.x, base)
        weight, variance, _ = components(sample(each), self.prior)
        ratio = np.array([r.ratio for r in self.design.reuse])[:, None]
        rows = ratio * (weight * variance).sum(-1) + self._rows(each, other)
        return _judged(d, found, self.design.test, prior, found.part, self.design.kept(rows))

    def _rows(self, d: Array, other: Array) -> Array:
        """The variance of one shared test set's rows, by condition and method."""
        there = ~np.isnan(d)
        n = np.maximum(there.sum(-1), 1)
        theirs = np.where(there, other, 0.0).sum(-1) / n
        mine = theirs + np.where(there, d, 0.0).sum(-1) / n
        each = [
            reuse.rows(mine[..., c, :], theirs[..., c, :])
            for c, reuse in enumerate(self.design.reuse)
        ]
        return np.stack(each, -2)


def _differences(x: Array, base: Numbers | int) -> tuple[Array, Array]:
    """(differences to the base, the base's own values)."""
    at = np.broadcast_to(np.asarray(base), x.shape[:-2])[..., None, None]
    other = np.take_along_axis(x, at, -2)
    return x - other, np.broadcast_to(other, x.shape)


def _judged(
    d: Array, found: Sample, test: Test, prior: Prior | None, part: Array, rows: Array
) -> Differences:
    """Add the rows' variance to the ``part`` of the seeds' that a mean keeps."""
    weight, variance, df = components(found, prior)
    same = constant(d)
    nothing = same & (np.abs(found.mean) < 1e-12)  # the same runs: nothing is uncertain
    spread = variance * part[..., None] + rows[..., None]
    scale = np.sqrt(np.where(nothing[..., None], 0.0, spread))
    floor = np.where(same, np.where(nothing, 1.0, 2.0 ** (1 - found.n)), 0.0)
    if test in ("hall", "wilcoxon"):
        other = _hall(d, found, part, rows) if test == "hall" else _wilcoxon(d)
        floor = np.where(same, floor, other)
    return Differences(found, Known(found.mean, weight, scale, df, floor))


def _hall(d: Array, found: Sample, part: Array, rows: Array) -> Array:
    n, mean, s2 = found.n, found.mean, found.variance
    with np.errstate(divide="ignore", invalid="ignore"):
        cubes = np.nansum((d - mean[..., None]) ** 3, -1) / n
        g = cubes / (s2 * (n - 1) / n) ** 1.5
        u = mean / np.sqrt(s2)
        t = u + g * u**2 / 3 + g**2 * u**3 / 27 + g / (6 * n)
        p: Array = 2 * stdtr(found.df, -np.abs(t) / np.sqrt(part + rows / s2))
    return p


def _wilcoxon(d: Array) -> Array:
    from scipy.stats import wilcoxon  # a second to import

    out = np.full(d.shape[:-1], np.nan)
    for at in np.ndindex(out.shape):
        there = d[at][~np.isnan(d[at])]
        if len(there) > 1:
            out[at] = wilcoxon(there).pvalue if np.abs(there).max() > 1e-12 else 1.0
    return out


def least_p(n: ArrayLike, test: Test) -> Array:
    """The smallest p-value that ``n`` pairs can give at all."""
    return 2.0 ** (1 - np.asarray(n, float)) * (test == "wilcoxon")
