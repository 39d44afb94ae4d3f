"""Worlds in which all methods are equally good, for ``false_alarms.py``.

Values are drawn by comparison, condition, method and seed; the first method is the baseline.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Values = NDArray[np.float64]
SPLIT = (0.2, 0.1)  # test and validation rows of a run by default


def alike(rng: Generator, *shape: int) -> Values:
    return rng.standard_normal(shape)


def unlike(spread: float) -> Callable[..., Values]:
    """Methods whose standard deviations differ by a lognormal factor."""

    def draw(rng: Generator, *shape: int) -> Values:
        sigma = np.exp(spread * rng.standard_normal((*shape[:-1], 1)))
        return sigma * rng.standard_normal(shape)

    return draw


def one_near(rng: Generator, *shape: int) -> Values:
    """One method hardly differs from the baseline in any seed."""
    x = rng.standard_normal(shape)
    x[..., 1, :] = x[..., 0, :] + 0.02 * rng.standard_normal((*shape[:-2], shape[-1]))
    return x


def one_wild(rng: Generator, *shape: int) -> Values:
    x = rng.standard_normal(shape)
    x[..., -1, :] *= 10
    return x


def all_but_one_near(rng: Generator, *shape: int) -> Values:
    """All methods but the last are the baseline with hardly a difference."""
    x = rng.standard_normal(shape)
    x[..., 1:-1, :] = x[..., :1, :] + 0.02 * rng.standard_normal(x[..., 1:-1, :].shape)
    return x


INDEPENDENT: dict[str, Callable[..., Values]] = {
    "normal, all vary alike": alike,
    "standard deviations unlike by a factor of 1.3": unlike(0.3),
    "by a factor of 1.8": unlike(0.6),
    "by a factor of 2.7": unlike(1.0),
    "one varies ten times as much": one_wild,
    "one hardly differs from the baseline": one_near,
    "all but one hardly differ from it": all_but_one_near,
    "in coarse steps": lambda rng, *s: np.round(rng.standard_normal(s)),
    "heavy tails: Student's t, 3 degrees": lambda rng, *s: rng.standard_t(3, s),
    "no tails: uniform": lambda rng, *s: rng.uniform(-1, 1, s),
    "each collapses once in ten": lambda rng, *s: (
        0.05 * rng.standard_normal(s) - (rng.random(s) < 0.1)
    ),
    "skewed: exponential": lambda rng, *s: rng.standard_exponential(s),
}


def skewed_baseline(rng: Generator, *shape: int) -> Values:
    """All but the baseline are certain, so that differences are as skewed as it is: by 2."""
    x = 0.05 * rng.standard_normal(shape)
    x[..., 0, :] = rng.standard_exponential(x[..., 0, :].shape) - 1
    return x


def fixed_rules(rng: Generator, times: int, c: int, k: int, n: int, rows: int = 621) -> Values:
    """Rules that are right on 85 of a hundred rows, on other ones each; every seed tests a fifth.

    All conditions have the same rows, and split them apart: what a mean over them shares most.
    """
    out, tested = np.empty((times, c, k, n)), int(SPLIT[0] * rows)
    for t in range(times):
        right = rng.random((k, rows)) < rng.beta(3.4, 0.6, rows)
        at = np.argsort(rng.random((c, n, rows)), -1)[..., :tested]
        out[t] = right[:, at].mean(-1).transpose(1, 0, 2)
    return out


def trained_rules(
    rng: Generator, times: int, c: int, k: int, n: int, rows: int = 400, inputs: int = 5
) -> Values:
    """Linear rules, each trained by least squares on inputs of its own that are worth the same."""
    out = np.empty((times, c, k, n))
    test, rest = int(SPLIT[0] * rows), int(sum(SPLIT) * rows)
    for t in range(times):
        x = rng.standard_normal((rows, k, inputs))
        y = np.sign(x.sum((1, 2)) / np.sqrt(k * inputs) + 0.5 * rng.standard_normal(rows))
        for i in range(c):
            at = np.argsort(rng.random((n, rows)), -1)
            mine, label = x[at[:, rest:]].transpose(0, 2, 1, 3), y[at[:, rest:]]
            moment = np.einsum("skrp,sr->skp", mine, label)
            w = np.linalg.solve(mine.swapaxes(-1, -2) @ mine, moment[..., None])[..., 0]
            said = np.sign(np.einsum("srkp,skp->skr", x[at[:, :test]], w))
            out[t, i] = (said == y[at[:, :test]][:, None]).mean(-1).T
    return out


def one_test_set(rng: Generator, times: int, c: int, k: int, n: int, rows: int = 1000) -> Values:
    """Each rule is right on the same 85 of a hundred rows in nine of ten cases, seed by seed."""
    out = np.empty((times, c, k, n))
    for t in range(times):
        easy = rng.beta(3.4, 0.6, (c, 1, 1, rows))
        fixed, free = (rng.random((c, k, m, rows)) < easy for m in (1, n))
        out[t] = np.where(rng.random((c, k, n, rows)) < 0.9, fixed, free).mean(-1)
    return out
