"""The label mixture as FedEP's printed listing computes it, which is not textbook EM.

g_m(y)  = exp(-(y - mu_m + e)^2 / (2 (s2_m + e))) / sqrt(2 pi (s2_m + e)),  e = 0.01
gamma   = pi_m g_m / sum_j pi_j g_j
s2_m    = sum gamma (y - mu_m)^2 / sum gamma + e
Q       = sum gamma (ln pi_m + ln(g_m + e))              (expected complete-data log-likelihood)
start   : random pi, means at the labels of random examples, no example twice, the variance of all
          labels; Q = 0
stop    : |change of Q| < 1e-6, 1500 steps, or a Q that is not finite: then the answer is that of
          the step before, so a first step that fails gives the start with Q = 0, which often has
          the least BIC
parts M : least -2 Q + (M - 1) ln n, which chooses as M ln n does

One start for each M, so unlike ``label_mixture`` the answer depends on the draw. The printed
program adds up the densities of an example in single precision, this one in double.
"""

import math

import numpy as np

_E = 0.01
_STEPS, _TOLERANCE = 1500, 1e-6


def select(labels: np.ndarray, most: int, draw: np.random.Generator, q: int = 1) -> np.ndarray:
    """Rows (pi, mu, variance) ordered by mean; ``q`` parameters are counted for each part."""
    y, count = np.unique(labels, return_counts=True)
    fits = [fit(y.astype(float), count, parts, draw) for parts in range(1, most + 1)]
    bic = [-2 * Q + q * m * math.log(count.sum()) for m, (_, Q) in enumerate(fits)]
    best = fits[int(np.argmin(bic))][0]
    return best[np.argsort(best[:, 1], kind="stable")]


def fit(
    y: np.ndarray, count: np.ndarray, parts: int, draw: np.random.Generator
) -> tuple[np.ndarray, float]:
    """(rows (pi, mu, variance), Q) of one run of EM on the label histogram."""
    n = count.sum()
    mean = count @ y / n
    pi = draw.random(parts)
    means = np.repeat(y, count)[draw.choice(n, parts, replace=False)]
    spread = np.full(parts, count @ (y - mean) ** 2 / n)
    theta, before = np.stack([pi / pi.sum(), means, spread], 1), 0.0
    for _ in range(_STEPS):
        new, likelihood = _step(y, count, theta)
        if not np.isfinite(likelihood):
            break
        done = abs(likelihood - before) < _TOLERANCE
        theta, before = new, likelihood
        if done:
            break
    return theta, before


def _step(y: np.ndarray, count: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """The next parameters and their Q; not finite where a part has lost all its labels."""
    pi, mu, s2 = theta.T
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = pi * _density(y, mu, s2)
        gamma = joint / joint.sum(1, keepdims=True) * count[:, None]
        mass = gamma.sum(0)
        mu = gamma.T @ y / mass
        s2 = (gamma * (y[:, None] - mu) ** 2).sum(0) / mass + _E
        pi = mass / count.sum()
        q = np.log(pi) + np.log(_density(y, mu, s2) + _E)
        return np.stack([pi, mu, s2], 1), float((gamma * q).sum())


def _density(y: np.ndarray, mu: np.ndarray, s2: np.ndarray) -> np.ndarray:
    """[labels, parts]: the shifted and inflated density."""
    s2 = s2 + _E
    density: np.ndarray = np.exp(-((y[:, None] - mu + _E) ** 2) / (2 * s2))
    return density / np.sqrt(2 * math.pi * s2)
