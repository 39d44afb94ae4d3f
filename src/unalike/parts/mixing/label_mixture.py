"""FedEP's question: the Gaussian mixture of a client's labels, seen as numbers.

EM on the label histogram: a label with count c weighs like c examples, so one pass costs
classes x parts instead of examples x parts. The number of parts minimises
BIC(M) = -2 ln L + q ln n, q = 3M - 1 (``listing``: q = M), M = 1 .. ceil(rho |labels|).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

_FLOOR = 0.01  # the least variance: a client with a single label has none of its own


@dataclass(frozen=True)
class LabelMixture:
    """Rows (pi, mu, variance), padded with pi = 0 to the same shape for every client."""

    rho: float = 0.5
    listing: bool = False
    restarts: int = 8
    name: ClassVar[str] = "label_mixture"
    reveals: ClassVar[str] = "a smoothed picture of the label distribution (3 numbers per part)"

    def answer(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """[ceil(rho classes), 3]."""
        theta = select(labels, self.rho, self.restarts, listing=self.listing)
        out = np.zeros((most_parts(self.rho, classes), 3), dtype=np.float32)
        out[:, 2] = 1.0
        out[: len(theta)] = theta
        return out


def most_parts(rho: float, labels: int) -> int:
    """ceil(rho |labels|); the guard keeps 0.7 x 10 from becoming 8."""
    return max(1, math.ceil(rho * labels - 1e-9))


def select(
    labels: np.ndarray, rho: float = 0.5, restarts: int = 8, listing: bool = False
) -> np.ndarray:
    """The mixture with the least BIC, rows (pi, mu, variance) ordered by mean."""
    y, count = np.unique(labels, return_counts=True)
    n = count.sum()
    best, least = np.empty((0, 3)), np.inf
    for parts in range(1, most_parts(rho, len(y)) + 1):
        theta, log_likelihood = fit(y.astype(float), count.astype(float), parts, restarts, listing)
        free = parts if listing else 3 * parts - 1
        bic = -2 * log_likelihood + free * math.log(n)
        if bic < least:
            best, least = theta, bic
    return best[np.argsort(best[:, 1])]


def fit(
    y: np.ndarray,
    count: np.ndarray,
    parts: int,
    restarts: int = 8,
    listing: bool = False,
    iterations: int = 500,
) -> tuple[np.ndarray, float]:
    """The best of several EM runs at once: (rows (pi, mu, variance), log-likelihood).

    A variance is at least the floor; the ``listing`` adds the floor to every variance instead.
    Means start at quantiles of the labels and at drawn labels; the generator is fixed, since the
    fit is part of the question and must not depend on when it is asked.
    """
    draw = np.random.default_rng(parts)
    n, mean = count.sum(), (count @ y) / count.sum()
    spread = max(float(count @ (y - mean) ** 2 / n), _FLOOR)
    at = np.interp((np.arange(parts) + 0.5) / parts, (np.cumsum(count) - count / 2) / n, y)
    mu = np.vstack([at, draw.choice(y, (restarts - 1, parts), p=count / n)])
    mu[1:] += 1e-3 * draw.standard_normal(mu[1:].shape)  # two parts on one label must come apart
    pi, s2 = np.full_like(mu, 1 / parts), np.full_like(mu, spread)
    before = -np.inf
    for _ in range(iterations):
        log = (
            np.log(np.maximum(pi, 1e-300))[:, None]
            - (y[:, None] - mu[:, None]) ** 2 / (2 * s2[:, None])
            - 0.5 * np.log(2 * np.pi * s2[:, None])
        )  # [restarts, labels, parts]
        top = log.max(2, keepdims=True)
        total = top + np.log(np.exp(log - top).sum(2, keepdims=True))
        likelihood = (count * total[..., 0]).sum(1)
        gamma = np.exp(log - total) * count[:, None]
        mass = np.maximum(gamma.sum(1), 1e-12)
        if np.all(likelihood - before < 1e-9 * n):
            break
        before = likelihood
        pi, mu = mass / n, (gamma * y[:, None]).sum(1) / mass
        s2 = (gamma * (y[:, None] - mu[:, None]) ** 2).sum(1) / mass
        s2 = s2 + _FLOOR if listing else np.maximum(s2, _FLOOR)
    i = int(np.argmax(likelihood))
    return np.stack([pi[i], mu[i], s2[i]], 1), float(likelihood[i])
